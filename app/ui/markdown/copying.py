"""The text that a selection of rows stands for: without borders, indents and the breaks at which lines were wrapped."""

from __future__ import annotations

from collections.abc import Sequence

from textual.selection import Selection

from app.ui.markdown.wrap import Row


def copied_text(rows: Sequence[Row], selection: Selection) -> str:
    """The text between the ends of `selection`, whose offsets are a row and a character in it."""
    first = selection.start.y if selection.start else 0
    last = min(selection.end.y if selection.end else len(rows) - 1, len(rows) - 1)
    text = ""
    previous: str | None = None  # the text of the table row above
    for y in range(first, last + 1):
        row = rows[y]
        if row.whole is not None and first != last:
            # Cells wrap side by side, so a row of a table is copied as a whole, once.
            if row.whole and row.whole is not previous:
                text += ("\n" if text else "") + row.whole
            previous = row.whole
            continue
        previous = None
        start, end = selection.get_span(y) or (0, 0)
        joint = "\n" if row.joint is None else row.joint
        text += (joint if y > first else "") + _part(row, start, end)
    return text


def _part(row: Row, start: int, end: int) -> str:
    parts: list[str] = []
    at = 0
    for text, _, copied in row.pieces:
        if copied:
            parts.append(text[max(0, start - at) : None if end < 0 else max(0, end - at)])
        at += len(text)
    return "".join(parts)
