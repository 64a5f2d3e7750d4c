"""A template as pieces, cut where Jinja2's lexer cuts: text, raw blocks and comments whole, tags as tokens with lines.

Only what the rewriter needs: joining the texts of all pieces gives the template back. What is wrong in a template is
left for minijinja to report; only sizes that would overflow its native stack are refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from app.templates.limits import MAX_SOURCE, MAX_TAG_TOKENS, MAX_TAGS, TemplateFailure

Kind = Literal["space", "string", "number", "name", "operator"]


@dataclass(frozen=True)
class Token:
    """A token of an expression and the line on which it begins (the first line is 1)."""

    kind: Kind
    text: str
    line: int


@dataclass(frozen=True)
class Text:
    """What is printed as it stands, and comments."""

    text: str


@dataclass(frozen=True)
class Raw:
    """`{% raw %}...{% endraw %}`: the opening tag up to its `%}`, and the rest."""

    opening: str
    rest: str


@dataclass(frozen=True)
class Tag:
    """`{{ ... }}` or `{% ... %}`: the opening with its whitespace sign, the tokens, the closing."""

    opening: str
    tokens: tuple[Token, ...]
    closing: str


Piece = Text | Raw | Tag

_OPENING = re.compile(r"\{[%{#]")
_CLOSING = {"{%": re.compile(r"[-+]?%\}"), "{{": re.compile(r"-?\}\}")}
_RAW = re.compile(r"(\{%[-+]?\s*raw\s*[-+]?)(%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\})", re.S)
_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<string>'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*")
      | (?P<number>0[bB](?:_?[01])+ | 0[oO](?:_?[0-7])+ | 0[xX](?:_?[0-9a-fA-F])+
          | (?<!\.)\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)? | \d+)  # after a dot, as in `a.0.1`, only digits
      | (?P<name>[^\W\d]\w*)
      | (?P<operator>//|\*\*|[=!<>]=|.)""",
    re.S | re.X,
)


def normalised(source: str) -> str:
    """`source` as Jinja2 reads it: `\\n` for every line end, and without one line end at the end."""
    return re.sub(r"\r\n?", "\n", source).removesuffix("\n")


def pieces_of(source: str) -> Iterator[Piece]:
    """The pieces of a normalised template; raises TemplateFailure where it is over a size limit."""
    if len(source) > MAX_SOURCE:
        raise TemplateFailure(None, f"longer than {MAX_SOURCE:,} characters")
    position, line, tags = 0, 1, 0
    while opening := _OPENING.search(source, position):
        yield Text(source[position : opening.start()])
        line += source.count("\n", position, opening.start())
        tags += 1
        if tags > MAX_TAGS:
            raise TemplateFailure(line, f"more than {MAX_TAGS:,} tags")
        position = opening.start()
        if raw := _RAW.match(source, position):
            yield Raw(raw[1], raw[2])
            end = raw.end()
        elif opening[0] == "{#":
            comment_end = source.find("#}", opening.end())
            end = len(source) if comment_end < 0 else comment_end + 2
            yield Text(source[position:end])
        elif tag := _tag(source, position, opening[0], line):
            yield tag
            end = position + len(tag.opening) + sum(len(token.text) for token in tag.tokens) + len(tag.closing)
        else:
            break
        line += source.count("\n", position, end)
        position = end
    yield Text(source[position:])


def _tag(source: str, start: int, brackets: str, line: int) -> Tag | None:
    """The tag that begins at `start`, or None if it is not closed. A closing inside a string or brackets is not one."""
    position = start + 2
    if source[position : position + 1] in ("-", "+"):
        position += 1
    opening, tokens, depth = source[start:position], list[Token](), 0
    while position < len(source):
        if depth == 0 and (closing := _CLOSING[brackets].match(source, position)):
            return Tag(opening, tuple(tokens), closing[0])
        found = _TOKEN.match(source, position)
        assert found is not None, "the last alternative takes any character"
        kind, text = found.lastgroup, found[0]
        tokens.append(Token(kind, text, line))  # type: ignore[arg-type]  # the groups are named by kind
        if len(tokens) > MAX_TAG_TOKENS:
            raise TemplateFailure(line, f"a tag of more than {MAX_TAG_TOKENS:,} tokens")
        if kind == "operator":
            depth += (text in "([{") - (text in ")]}")
        line += text.count("\n")
        position = found.end()
    return None
