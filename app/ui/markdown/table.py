"""Tables fitted to a width: natural columns if they fit, else wrapped cells, else one line a cell. No text is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from app.ui.markdown.model import Span, Spans, Table
from app.ui.markdown.wrap import Piece, Row, wrap

_GAP = " │ "
_BORDER = ("table-border",)
_NARROWEST = 6  # cells; columns below that are unreadable, so the rows are stacked

Cells = Sequence[Spans]


@dataclass(frozen=True, slots=True)
class Columns:
    """How wide each column is. `widths` is empty for stacked rows; `wrapped` puts a line between rows."""

    widths: tuple[int, ...]
    wrapped: bool


def widest(rows: Iterable[Cells], start: Sequence[int] = ()) -> tuple[int, ...]:
    """The cells that each column would like, at least those of `start`."""
    widths = list(start)
    for row in rows:
        widths = widths or [1] * len(row)
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], _width(cell))
    return tuple(widths)


def _width(cell: Spans) -> int:
    text = "".join(span.text for span in cell)
    return max(map(cell_len, text.split("\n"))) if "\n" in text else cell_len(text)


def fit(natural: Sequence[int], width: int) -> Columns:
    """Share `width` among the columns: narrow ones get what they like, the others an equal part of the rest."""
    room = width - len(_GAP) * (len(natural) - 1)
    if sum(natural) <= room:
        return Columns(tuple(natural), wrapped=False)
    if room < _NARROWEST * len(natural):
        return Columns((), wrapped=True)
    widths = [0] * len(natural)
    order = sorted(range(len(natural)), key=lambda column: natural[column])
    for done, column in enumerate(order):
        widths[column] = min(natural[column], room // (len(natural) - done))
        room -= widths[column]
    return Columns(tuple(widths), wrapped=True)


def table_rows(table: Table, width: int) -> list[Row]:
    """The whole table."""
    columns = fit(widest((table.header, *table.rows)), width)
    rows = header_rows(table, columns, width, empty=not table.rows)
    for index, cells in enumerate(table.rows):
        rows.extend(body_rows(table, columns, cells, width, first=index == 0))
    return rows


def header_rows(table: Table, columns: Columns, width: int, empty: bool) -> list[Row]:
    """The header and the line under it; stacked rows repeat the header themselves, if there are any."""
    if not columns.widths:
        return _stacked(table, table.header, width) if empty else []
    header = tuple(tuple(Span(text, ("table-header", *roles)) for text, roles in cell) for cell in table.header)
    return [*_grid(header, table.alignments, columns.widths), _line(columns.widths, "─┼─", "─")]


def body_rows(table: Table, columns: Columns, cells: Cells, width: int, first: bool) -> list[Row]:
    """One row of the body, with the line above it where rows need telling apart."""
    if not columns.widths:
        separator = [] if first else [Row((Piece("╌" * width, _BORDER, False),), whole="")]
        return separator + _stacked(table, cells, width)
    separator = [] if first or not columns.wrapped else [_line(columns.widths, "╌┼╌", "╌")]
    return separator + _grid(cells, table.alignments, columns.widths)


def _line(widths: Sequence[int], cross: str, dash: str) -> Row:
    return Row((Piece(cross.join(dash * width for width in widths), _BORDER, False),), whole="")


def _text(cells: Cells) -> str:
    return " | ".join("".join(span.text for span in cell) for cell in cells)


def _grid(cells: Cells, alignments: Sequence[str], widths: Sequence[int]) -> list[Row]:
    wrapped = [wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    whole = _text(cells)
    rows: list[Row] = []
    for index in range(max(len(lines) for lines in wrapped)):
        pieces: list[Piece] = []
        for column, lines in enumerate(wrapped):
            if column:
                pieces.append(Piece(_GAP, _BORDER, False))
            content = lines[index].pieces if index < len(lines) else ()
            spare = widths[column] - sum(cell_len(piece.text) for piece in content)
            left = {"right": spare, "center": spare // 2}.get(alignments[column], 0)
            pieces.extend((Piece(" " * left, (), False), *content, Piece(" " * (spare - left), (), False)))
        rows.append(Row(tuple(piece for piece in pieces if piece.text), "" if index else None, (), whole))
    return rows


def _stacked(table: Table, cells: Cells, width: int) -> list[Row]:
    """A row as lines of "header: value", for tables with more columns than the width can hold."""
    whole = _text(cells)
    rows: list[Row] = []
    for name, cell in zip(table.header, cells, strict=True):
        label = tuple(Span(text, ("table-header", *roles)) for text, roles in name)
        spans = (*label, Span(": ", ("table-header",)), *cell) if cells is not table.header else label
        rows.extend(wrap(spans, width))
    return [row._replace(whole=whole, joint="" if index else None) for index, row in enumerate(rows)]
