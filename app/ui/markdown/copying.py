"""The text that a selection of rows stands for: without borders, indents and the breaks at which lines were wrapped."""

from __future__ import annotations

from collections.abc import Sequence

from textual.selection import Selection

from app.ui.markdown.wrap import Row


def copied_text(rows: Sequence[Row], selection: Selection) -> str:
    """The text between the ends of `selection`, whose offsets are a row and a character in it."""
    first = selection.start.y if selection.start else 0
    last = min(selection.end.y if selection.end else len(rows) - 1, len(rows) - 1)
    parts: list[str] = []
    for y in range(first, last + 1):
        row = rows[y]
        if row.whole is not None and first != last:
            if row.whole and (row.joint is None or y == first):
                parts += ["\n" if parts else "", row.whole]
            continue
        joint = "\n" if row.joint is None else row.joint
        parts += [joint if parts else "", _part(row, *(selection.get_span(y) or (0, 0)))]
    return "".join(parts)


def _part(row: Row, start: int, end: int) -> str:
    parts: list[str] = []
    at = 0
    for text, _, copied in row.pieces:
        if copied:
            parts.append(text[max(0, start - at) : None if end < 0 else max(0, end - at)])
        at += len(text)
    return "".join(parts)
