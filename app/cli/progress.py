"""How far something is, on stderr: a line that redraws itself on a terminal, a few plain lines anywhere else."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from app.cli.terminal import escape_controls, is_terminal
from app.hub.transfer import Transfer

REDRAW_S = 0.1


class ProgressLine:
    """Call it with (stage, done, total in bytes or None), or `show` it a download with its speed and the time left.

    A context manager, so that the line is cleared at the end. No colour is used. Away from a terminal there is one line
    for each stage and one for each tenth of it.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._drawing = is_terminal(self._stream)
        self._stage = ""
        self._tenths: dict[str, int] = {}  # that have been told, of each stage
        self._drawn_at = 0.0
        self._dirty = False

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        self.show(Transfer(stage, done, total))

    def show(self, transfer: Transfer) -> None:
        """Tell how far a download is."""
        if self._stream is None:
            return
        if self._drawing:
            self._draw(transfer)
        else:
            self._print(transfer)

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

    def _draw(self, transfer: Transfer) -> None:
        now = time.monotonic()
        same = transfer.stage == self._stage and transfer.done != transfer.total
        if same and now - self._drawn_at < REDRAW_S:
            return
        self._stage, self._drawn_at, self._dirty = transfer.stage, now, True
        line = transfer_text(transfer, shutil.get_terminal_size().columns - 1)
        self._stream.write("\r\x1b[K" + line)
        self._stream.flush()

    def _print(self, transfer: Transfer) -> None:
        stage, done, total = transfer.stage, transfer.done, transfer.total
        said = f"{stage}, {transfer.note}" if transfer.note and stage != "retrying" else stage
        if stage == "retrying" and stage != self._stage:
            self._stream.write(escape_controls(f"retrying: {transfer.note}\n"))
        elif said not in self._tenths and stage != "retrying":
            self._stream.write(escape_controls(f"{said}{f' ({human_bytes(total)})' if total else ''}\n"))
        self._stage = stage
        tenth = 10 * done // total if total else 0
        if tenth > self._tenths.setdefault(said, 0) and stage != "retrying":
            self._tenths[said] = tenth
            left = (
                f", {duration(transfer.seconds_left)} left"
                if transfer.seconds_left and transfer.seconds_left >= 1
                else ""
            )
            self._stream.write(escape_controls(f"{said}: {10 * tenth} %{left}\n"))
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


def transfer_text(transfer: Transfer, width: int) -> str:
    """One line of at most `width` columns about a download: the numbers first, then a note, as far as there is room."""
    note = escape_controls(transfer.note)
    if transfer.stage == "retrying":
        return f"retrying: {note}"[:width]
    speed = [f"{human_bytes(transfer.speed)}/s"] if transfer.speed is not None else []
    left = [f"{duration(transfer.seconds_left)} left"] if transfer.seconds_left and transfer.seconds_left >= 1 else []
    more = "  ".join([*speed, *left, *([note] if note else [])])
    stage = escape_controls(transfer.stage)
    for tail in (f"  {more}" if more else "", f"  {'  '.join([*speed, *left])}" if speed else "", ""):
        line = progress_text(stage, transfer.done, transfer.total, width - len(tail))
        if not tail or (len(line) + len(tail) <= width and ("[" in line or not transfer.total)):
            return line + tail
    return line


def duration(seconds: float) -> str:
    """42 as "42 s", 4000 as "1 h 6 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s" if whole < 600 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def human_bytes(count: float) -> str:
    """1,234,567 as "1.2 MB" (powers of 1000, as download pages and disks count)."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit in ("B", "kB") else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
