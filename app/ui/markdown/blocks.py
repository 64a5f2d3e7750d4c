"""Tokens of markdown-it to the blocks of `model`, and where each top-level block stands in the source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from app.ui.markdown.inline import spans_of, visible
from app.ui.markdown.model import Block, Code, Heading, Item, Paragraph, Quote, Rule, Spaced, Span, Spans, Table

# The time of inline parsing grows with the square of the marks in a block: with more of them, as when a model repeats
# one for ever, the block is shown as it was written.
_MOST_MARKS = 2000
_MARK = re.compile(r"[\[*_~<`&!]")
# markdown-it drops what is nested deeper than its limit; such a block is shown as it was written instead.
_DEEPEST = 60
_TOO_DEEP = _DEEPEST - 2
_LISTS = {"bullet_list", "ordered_list"}
_TASK = re.compile(r"\[([ xX])\] ")


@dataclass(frozen=True, slots=True)
class Placed:
    """A top-level block, or an item of a top-level list, with its lines in the source: first, and one past the last.

    `list_start` is the first line of the list that an item belongs to, `number` its number, `markup` its mark.
    """

    spaced: Spaced
    kind: str
    start: int
    end: int
    markup: str = ""
    list_start: int | None = None
    number: int = 0


def new_parser() -> MarkdownIt:
    """CommonMark with tables and strikethrough; HTML is text like any other."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST}).enable(["table", "strikethrough"])
    parser.core.ruler.at("inline", _parse_inline)
    return parser


def _parse_inline(state: StateCore) -> None:
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children = token.children or []
        if len(_MARK.findall(token.content)) <= _MOST_MARKS:
            state.md.inline.parse(token.content, state.md, state.env, token.children)
            continue
        for index, line in enumerate(token.content.split("\n")):
            if index:
                token.children.append(Token("softbreak", "br", 0))
            token.children.append(Token("text", "", 0, content=line))


def parse(parser: MarkdownIt, source: str, env: dict[str, Any], first_number: int | None = None) -> list[Placed]:
    """The top-level blocks of `source`; `env` collects link definitions.

    `first_number` replaces the number of the first item when `source` continues an ordered list.
    """
    tokens = parser.parse(source, env)
    lines = source.split("\n")
    placed: list[Placed] = []
    for node in SyntaxTreeNode(tokens).children:
        start, end = node.map or (0, 0)
        if node.type in _LISTS:
            number = first_number if first_number is not None and not placed else _number(node)
            for index, child in enumerate(node.children):
                first, last = child.map or (0, 0)
                item = _item(child, node, number + index, lines)
                gap = _blank(lines, first - 1) if index else bool(placed)
                placed.append(Placed(Spaced(item, gap), "item", first, last, node.markup, start, number + index))
        else:
            block = _as_written(lines, start, end) if _too_deep(node) else _block(node, lines)
            placed.append(Placed(Spaced(block, bool(placed)), node.type, start, end, node.markup))
    return placed


def _too_deep(node: SyntaxTreeNode) -> bool:
    return any(token.level >= _TOO_DEEP for token in node.to_tokens())


def _as_written(lines: Sequence[str], start: int, end: int) -> Paragraph:
    return Paragraph((Span("\n".join(lines[start:end]).replace("\t", "    ").rstrip("\n")),))


def _block(node: SyntaxTreeNode, lines: Sequence[str]) -> Block:
    match node.type:
        case "heading" | "lheading":
            return Heading(int(node.tag[1]), _inline(node))
        case "hr":
            return Rule()
        case "blockquote":
            return Quote(_children(node, lines, gaps=True))
        case "table":
            return _table(node)
        case "fence":
            return _fence(node)
        case "code_block":
            return Code("", node.content.removesuffix("\n"))
        case _:
            return Paragraph(_inline(node))


def _inline(node: SyntaxTreeNode) -> Spans:
    for child in node.children:
        if child.type == "inline":
            return spans_of([token for part in child.children for token in part.to_tokens()])
    return ()


def _children(node: SyntaxTreeNode, lines: Sequence[str], gaps: bool) -> tuple[Spaced, ...]:
    """The blocks in `node`. Inside a list (`gaps` false) a blank row is drawn only where the author left one."""
    spaced: list[Spaced] = []
    for child in node.children:
        gap = bool(spaced) and (gaps or _blank(lines, _start(child) - 1))
        if child.type in _LISTS:
            items = _items(child, lines)
            spaced.append(Spaced(items[0].block, gap))
            spaced.extend(items[1:])
        else:
            spaced.append(Spaced(_block(child, lines), gap))
    return tuple(spaced)


def _number(node: SyntaxTreeNode) -> int:
    return int(node.attrs.get("start", 1))


def _items(node: SyntaxTreeNode, lines: Sequence[str]) -> list[Spaced]:
    return [
        Spaced(_item(child, node, _number(node) + index, lines), bool(index) and _blank(lines, _start(child) - 1))
        for index, child in enumerate(node.children)
    ]


def _start(node: SyntaxTreeNode) -> int:
    return node.map[0] if node.map else 0


def _item(node: SyntaxTreeNode, parent: SyntaxTreeNode, number: int, lines: Sequence[str]) -> Item:
    marker = f"{number:>2}{parent.markup}" if parent.type == "ordered_list" else "•"
    if node.level == 1 and _too_deep(node):
        start, end = node.map or (0, 0)
        return Item(marker, (Spaced(_as_written(lines, start, end), False),))
    children = _children(node, lines, gaps=False)
    if children and isinstance(paragraph := children[0].block, Paragraph) and paragraph.spans:
        first = paragraph.spans[0]
        if task := _TASK.match(first.text):
            marker = "☐" if task[1] == " " else "☑"
            rest = (Span(first.text[task.end() :], first.roles), *paragraph.spans[1:])
            children = (Spaced(Paragraph(rest), False), *children[1:])
    return Item(marker, children)


def _blank(lines: Sequence[str], index: int) -> bool:
    return 0 <= index < len(lines) and not lines[index].strip(" \t>")


def _table(node: SyntaxTreeNode) -> Table:
    rows = [row for part in node.children for row in part.children]
    header = rows[0].children
    alignments = tuple(str(cell.attrs.get("style", "")).removeprefix("text-align:") or "left" for cell in header)
    cells = [tuple(_inline(cell) for cell in row.children) for row in rows]
    return Table(cells[0], alignments, tuple(cells[1:]))


def _fence(node: SyntaxTreeNode) -> Code:
    """A closed fence spans its content and two lines; an open one has no closing line."""
    start, end = node.map or (0, 0)
    count = node.content.count("\n") + bool(node.content and not node.content.endswith("\n"))
    return Code(language_of(node.info), node.content.removesuffix("\n"), closed=end - start == count + 2)


def language_of(info: str) -> str:
    """The language of a fence: the first word of what follows the opening marks."""
    words = unescapeAll(info).split(maxsplit=1)
    return visible(words[0]) if words else ""
