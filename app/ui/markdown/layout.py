"""Blocks to rows of a given width. Colours don't matter here, so a change of theme needs no new layout."""

from __future__ import annotations

from collections.abc import Sequence

from app.ui.markdown.code import code_rows
from app.ui.markdown.model import Block, Code, Heading, Item, Paragraph, Quote, Roles, Rule, Spaced, Span, Spans, Table
from app.ui.markdown.table import table_rows
from app.ui.markdown.wrap import Piece, Row, wrap

_BAR = Piece("▎ ", ("quote-bar",), False)
_NARROWEST = 12  # cells: what is nested so deep that less would be left for its text is not indented any further
_SMALLEST = 4  # cells of the narrowest pane that a wide character in a code block fits in


def rows_of(spaced: Spaced, width: int) -> list[Row]:
    """The rows of a block with the blank row above it, if there is one."""
    rows = block_rows(spaced.block, max(_SMALLEST, width))
    return [Row(), *rows] if spaced.gap else rows


def block_rows(block: Block, width: int) -> list[Row]:
    match block:
        case Paragraph(spans):
            return wrap(spans, width)
        case Heading(level, spans):
            return wrap(_within(spans, f"h{level}"), width)
        case Code(language, text, closed):
            return code_rows(language, text, width, closed)
        case Rule():
            return [Row((Piece("─" * width, ("rule",), False),), whole="")]
        case Quote(children):
            return _indented(children, width, _BAR, _BAR, "quote")
        case Item(marker, children):
            mark = Piece(f"{marker} ", ("marker",))
            return _indented(children, width, mark, Piece(" " * len(mark.text), (), False))
        case Table():
            return table_rows(block, width)


def _within(spans: Spans, role: str) -> Spans:
    return tuple(Span(text, (role, *roles)) for text, roles in spans)


def _indented(children: Sequence[Spaced], width: int, first: Piece, other: Piece, role: str = "") -> list[Row]:
    room = width - len(first.text)
    if room < _NARROWEST:
        mark = [Row((first,))] if first.copied else []
        inner = [_prefixed(row, (), role) for child in children for row in rows_of(child, width)]
        return mark + inner or [Row()]
    inner = [row for child in children for row in rows_of(child, room)] or [Row()]
    return [_prefixed(row, (other if index else first,), role) for index, row in enumerate(inner)]


def _prefixed(row: Row, prefix: tuple[Piece, ...], role: str) -> Row:
    if not role:
        return row._replace(pieces=prefix + row.pieces)
    return row._replace(pieces=prefix + tuple(piece._replace(roles=_outer(role, piece.roles)) for piece in row.pieces))


def _outer(role: str, roles: Roles) -> Roles:
    return roles if "code" in roles else (role, *roles)
