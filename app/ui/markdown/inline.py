"""Inline Markdown to styled spans. Links are shown, never opened: text and address, no action in the style."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it.token import Token

from app.cli.terminal import escape_controls
from app.ui.markdown.model import Roles, Span, Spans

_STYLED = {"strong": "strong", "em": "em", "s": "strike", "link": "link"}


def visible(text: str) -> str:
    """`text` safe for a terminal row. Entities such as `&#13;` put controls back after the source was escaped."""
    return escape_controls(text.replace("\n", " ").replace("\t", " "))


def spans_of(tokens: Sequence[Token], base: Roles = ()) -> Spans:
    """The spans of the children of an inline token."""
    spans: list[Span] = []
    roles = base
    links: list[tuple[str, int]] = []  # address, index of the first span of the link's text

    def add(text: str, *extra: str) -> None:
        if not text:
            return
        wanted = (*roles, *extra)
        if spans and spans[-1].roles == wanted and (not links or len(spans) > links[-1][1]):
            spans[-1] = Span(spans[-1].text + text, wanted)
        else:
            spans.append(Span(text, wanted))

    for token in tokens:
        kind, _, end = token.type.rpartition("_")
        if token.type in {"softbreak", "hardbreak"}:
            add("\n")
        elif token.type == "code_inline":
            add(visible(token.content), "code-inline")
        elif token.type == "image":
            add(visible(token.content) or "image", "em")
            add(f" ({visible(str(token.attrGet('src') or ''))})", "url")
        elif kind in _STYLED and end == "open":
            roles = (*roles, _STYLED[kind])
            if kind == "link":
                links.append((visible(str(token.attrGet("href") or "")), len(spans)))
        elif kind in _STYLED and end == "close":
            roles = roles[:-1]
            if kind == "link":
                address, first = links.pop()
                text = "".join(span.text for span in spans[first:])
                if text not in {address, address.removeprefix("mailto:")}:
                    add(f" ({address})", "url")
        else:
            add(visible(token.content))
    return tuple(spans)
