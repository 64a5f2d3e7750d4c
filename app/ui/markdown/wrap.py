"""Spans of text to rows of a given width in cells, without losing a character that can be seen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from app.ui.markdown.model import Roles, Spans


class Piece(NamedTuple):
    """A run of one style in a row. Pieces that only decorate (borders, indents) are not copied."""

    text: str
    roles: Roles = ()
    copied: bool = True


class Row(NamedTuple):
    """One row of the screen.

    `joint` is what stood in the text between the row above and this one: None for a line break, else the space at
    which the line was wrapped, or nothing where a word was folded. `fill` styles the rest of the row. `whole` is the
    text to copy when a selection takes more than this row: all of a table row, as its cells wrap side by side, and
    nothing at all, not even a line break, for a row that only decorates.
    """

    pieces: tuple[Piece, ...] = ()
    joint: str | None = None
    fill: Roles = ()
    whole: str | None = None


class _Line(NamedTuple):
    """A wrapped line as a slice of the text, and the joint before it."""

    start: int
    end: int
    joint: str | None


# Text of these scripts may be broken after any character, except before closing punctuation.
_WIDE = "\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff01-\uffef\U0001f000-\U0003ffff"
_CLOSING = "、。，．：；！？）］｝〉》」』】〕〗ーっゃゅょッャュョ\u200d\ufe0e\ufe0f\u0300-\u036f\U0001f3fb-\U0001f3ff"
_UNIT = re.compile(rf"(?:[^\s{_WIDE}]+|[{_WIDE}](?:\u200d\S|[{_CLOSING}])*)\s*|\s+")
_ASCII_UNIT = re.compile(r"\S+\s*|\s+")


def wrap(spans: Spans, width: int) -> list[Row]:
    """Rows of at most `width` cells; at least one. Words longer than a row are folded."""
    rows: list[Row] = []
    text = "".join(span.text for span in spans)
    at = 0
    for line in text.split("\n"):
        lines = _break(line, width)
        rows.extend(Row(tuple(_slice(spans, at + part.start, at + part.end)), part.joint) for part in lines)
        at += len(line) + 1
    return rows


def fold(text: str, width: int) -> list[str]:
    """`text` cut into parts of at most `width` cells; spaces stay where they are, as code needs it."""
    if len(text) <= width and text.isascii():
        return [text]
    return chop_cells(text, width) or [text]


def _break(line: str, width: int) -> list[_Line]:
    if line.isascii():
        if len(line) <= width:
            return [_Line(0, len(line), None)]
        return list(_fill(line, width, _ASCII_UNIT))
    if cell_len(line) <= width:
        return [_Line(0, len(line), None)]
    return list(_fill(line, width, _UNIT))


def _fill(line: str, width: int, unit: re.Pattern[str]) -> Iterator[_Line]:
    """Greedy filling. Spaces at which a line is wrapped belong to the joint, not to a row."""
    measure = len if line.isascii() else cell_len
    start = shown = 0  # of the row being filled: its first character, and the end of its last word
    used = 0  # cells from `start` to the unit
    joint: str | None = None
    for match in unit.finditer(line):
        word = match[0].rstrip()
        word_end = match.start() + len(word)
        size = measure(word)
        if used + size > width:
            if shown > start:
                yield _Line(start, shown, joint)
                joint = line[shown : match.start()]
                start, used = match.start(), 0
            if used + size > width:
                parts = chop_cells(line[start:word_end], width)
                for part in parts[:-1]:
                    yield _Line(start, start + len(part), joint)
                    start, joint = start + len(part), ""
                used, size = 0, measure(parts[-1])
        if word:
            shown = word_end
        used += size + measure(line[word_end : match.end()])
    yield _Line(start, max(start, shown), joint)


def _slice(spans: Spans, start: int, end: int) -> Iterator[Piece]:
    at = 0
    for text, roles in spans:
        if at >= end:
            return
        if at + len(text) > start and (part := text[max(0, start - at) : end - at]):
            yield Piece(part, roles)
        at += len(text)
