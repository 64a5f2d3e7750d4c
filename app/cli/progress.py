"""How far something is, on stderr: a line that redraws itself on a terminal, a few plain lines anywhere else."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from app.cli.terminal import escape_controls, is_terminal

REDRAW_S = 0.1


class ProgressLine:
    """Call it with (stage, done, total in bytes or None); a context manager, so that the line is cleared at the end.

    No colour is used. Away from a terminal there is one line for each stage and one for each tenth of it.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._drawing = is_terminal(self._stream)
        self._stage = ""
        self._tenth = 0
        self._drawn_at = 0.0
        self._dirty = False

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if self._stream is None:
            return
        if self._drawing:
            self._draw(stage, done, total)
        else:
            self._print(stage, done, total)

    def say(self, text: str) -> None:
        """A line of its own that stays, such as a notice."""
        if self._stream is not None:
            self._clear()
            self._stream.write(escape_controls(text) + "\n")
            self._stream.flush()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def _draw(self, stage: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if stage == self._stage and done != total and now - self._drawn_at < REDRAW_S:
            return
        self._stage, self._drawn_at, self._dirty = stage, now, True
        line = progress_text(stage, done, total, shutil.get_terminal_size().columns - 1)
        self._stream.write("\r\x1b[K" + escape_controls(line))
        self._stream.flush()

    def _print(self, stage: str, done: int, total: int | None) -> None:
        if stage != self._stage:
            self._stage, self._tenth = stage, 0
            self._stream.write(f"{stage}{f' ({human_bytes(total)})' if total else ''}\n")
        tenth = 10 * done // total if total else 0
        if tenth > self._tenth:
            self._tenth = tenth
            self._stream.write(f"{stage}: {10 * tenth} %\n")
        self._stream.flush()

    def _clear(self) -> None:
        if self._dirty:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._dirty = False


def progress_text(stage: str, done: int, total: int | None, width: int) -> str:
    """One line of at most `width` columns: the stage, a bar where there is room, and the numbers."""
    if not total:
        return (f"{stage} {human_bytes(done)}" if done else f"{stage} ...")[:width]
    numbers = f"{100 * done // total:3d} %  {human_bytes(done)} of {human_bytes(total)}"
    room = min(40, width - len(stage) - len(numbers) - 4)
    if room < 5:
        return f"{stage} {100 * done // total} %"[:width]
    filled = room * done // total
    return f"{stage} [{'=' * filled}{' ' * (room - filled)}] {numbers}"


def human_bytes(count: float) -> str:
    """1,234,567 as "1.2 MB" (powers of 1000, as download pages and disks count)."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit in ("B", "kB") else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
