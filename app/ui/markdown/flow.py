"""All rows of a message for one width, kept up while the message grows: rows of settled text are laid out once."""

from __future__ import annotations

from dataclasses import dataclass

from app.ui.markdown.code import label_row, plain_line
from app.ui.markdown.layout import rows_of
from app.ui.markdown.stream import MarkdownStream, OpenCode, OpenTable
from app.ui.markdown.table import Columns, body_rows, fit, header_rows, widest
from app.ui.markdown.wrap import Row


@dataclass(slots=True)
class _Growing:
    """How far the open fence or table is laid out. Its rows begin at `start`; `done` lines or table rows stay."""

    block: OpenCode | OpenTable
    start: int
    done: int = 0
    measured: int = 0  # table rows in `natural`, the widths that the columns would like
    natural: tuple[int, ...] = ()
    columns: Columns | None = None
    empty: bool = True


class Flow:
    """`rows` for a pane `width` cells wide."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[Row] = []
        self._parts = 0  # settled parts of the stream that are laid out
        self._kept = 0  # rows that stay
        self._growing: _Growing | None = None
        self._cut_at = 0  # the first row taken away during an update
        self._removed: list[Row] = []  # what was taken away

    def update(self, stream: MarkdownStream) -> int:
        """Bring the rows up to date; the index of the first one that changed."""
        self._removed = []
        if self._growing and self._growing.block is not stream.open:
            self._kept = self._growing.start
            self._growing = None
        self._cut()
        for part in stream.settled[self._parts :]:
            self._add(rows_of(part, self.width))
        self._parts = len(stream.settled)
        if stream.open:
            self._growing = self._growing or _Growing(stream.open, len(self.rows))
            if isinstance(stream.open, OpenCode):
                self._grow_code(self._growing, stream.open)
            else:
                self._grow_table(self._growing, stream.open)
        for part in stream.tail:
            self.rows.extend(rows_of(part, self.width))
        return self._first_changed()

    def _first_changed(self) -> int:
        changed = self._cut_at
        for old, new in zip(self._removed, self.rows[changed:], strict=False):
            if old != new:
                break
            changed += 1
        return changed

    def _cut(self) -> None:
        """Take away the rows that don't stay."""
        self._cut_at = self._kept
        self._removed = self.rows[self._kept :] + self._removed
        del self.rows[self._kept :]

    def _add(self, rows: list[Row]) -> None:
        self.rows.extend(rows)
        self._kept = len(self.rows)

    def _restart(self, growing: _Growing) -> None:
        self._kept, growing.done = growing.start, 0
        self._cut()

    def _grow_code(self, growing: _Growing, code: OpenCode) -> None:
        if code.closed:  # though more may come on that line
            self._restart(growing)
            self.rows.extend(rows_of(code.block(), self.width))
            return
        if self._kept == growing.start:
            self._add([*([Row()] if code.gap else []), label_row(code.language, self.width)])
        for line in code.lines[growing.done :]:
            self._add(plain_line(line, self.width))
        growing.done = len(code.lines)
        if code.shown_partial or not code.lines:
            self.rows.extend(plain_line(code.shown_partial, self.width))

    def _grow_table(self, growing: _Growing, table: OpenTable) -> None:
        growing.natural = widest(table.rows[growing.measured :], growing.natural or widest([table.head.header]))
        growing.measured = len(table.rows)
        columns = fit(widest(table.partial, growing.natural), self.width)
        empty = not table.rows and not table.partial
        if (columns, empty) != (growing.columns, growing.empty):
            self._restart(growing)
            growing.columns, growing.empty = columns, empty
            self._add([*([Row()] if table.gap else []), *header_rows(table.head, columns, self.width, empty)])
        for index, cells in enumerate(table.rows[growing.done :], growing.done):
            self._add(body_rows(table.head, columns, cells, self.width, first=index == 0))
        growing.done = len(table.rows)
        for index, cells in enumerate(table.partial, growing.done):
            self.rows.extend(body_rows(table.head, columns, cells, self.width, first=index == 0))
