"""How far something is: the numbers, the bar and what stands behind it, and when a line is drawn anew."""

from __future__ import annotations

import io
import shutil
from os import terminal_size

import pytest

from app.cli import progress as module
from app.cli.progress import ProgressLine, duration, human_bytes, progress_text, transfer_text
from app.hub.transfer import Transfer

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    """A terminal of 60 columns. `flushed` is what a person sees."""

    flushed = ""

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.flushed = self.getvalue()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: terminal_size((60, 24)))
    return Terminal()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as its only item."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (60, "1 min 00 s"), (599, "9 min 59 s"), (3599, "59 min"),
        (3600, "1 h 0 min"), (4000, "1 h 6 min"),
    ],
)  # fmt: skip
def test_a_time_is_as_exact_as_it_is_known(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(1000, "1 kB"), (999_499, "999 kB"), (1e12, "1.0 TB"), (2.5e15, "2500.0 TB")]
)
def test_a_size_has_the_largest_unit_that_it_fills(count: float, text: str) -> None:
    assert human_bytes(count) == text


def test_a_line_is_drawn_ten_times_a_second_and_for_every_change(terminal: Terminal, clock: list[float]) -> None:
    with ProgressLine(terminal) as progress:
        for done in (1, 2, 3):
            progress("downloading", done, 100)
        assert terminal.flushed.count(CLEAR) == 1 and "1 %" in terminal.flushed
        clock[0] += 0.125
        progress("downloading", 4, 100)
        assert terminal.flushed.count(CLEAR) == 2 and "4 %" in terminal.flushed
        progress("verifying", 4, 100)
        assert terminal.flushed.count(CLEAR) == 3
        progress("verifying", 100, 100)
        assert terminal.flushed.count(CLEAR) == 4 and "100 %" in terminal.flushed


def test_a_line_leaves_the_last_column_free_and_a_notice_stands_alone(terminal: Terminal) -> None:
    """A terminal begins a new line behind a character in its last column."""
    with ProgressLine(terminal) as progress:
        progress.show(Transfer("downloading", 1, None, note="w" * 60))
        assert terminal.getvalue() == f"{CLEAR}downloading 1 B"
        progress("d" * 99, 50, 100)
        assert len(terminal.getvalue().rpartition(CLEAR)[2]) == 59
        progress.say("a notice")
        assert terminal.flushed.endswith(f"{CLEAR}a notice\n")
    assert terminal.flushed.endswith("a notice\n"), "there is nothing to clear"


def test_without_a_stream_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with ProgressLine() as progress:
        progress("downloading", 1, 2)
        progress.say("a notice")


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (200, f"x [{'=' * 20}{' ' * 20}]  50 %  500 B of 1 kB"),
        (40, "x [=======        ]  50 %  500 B of 1 kB"),
        (30, "x [==   ]  50 %  500 B of 1 kB"),
        (29, "x 50 %"),
        (3, "x 5"),
    ],
)
def test_a_bar_is_as_long_as_there_is_room_and_no_longer_than_forty(width: int, line: str) -> None:
    assert progress_text("x", 500, 1000, width) == line
    assert len(line) <= width


@pytest.mark.parametrize(("done", "line"), [(0, "x ..."), (500, "x 500 B")])
def test_where_the_whole_is_not_known_there_is_no_bar(done: int, line: str) -> None:
    assert progress_text("x", done, None, 80) == line


@pytest.mark.parametrize(
    ("width", "tail"),
    [
        (100, "50 %  500 B of 1 kB  100 B/s  5 s left  part 1 of 2"),
        (62, "50 %  500 B of 1 kB  100 B/s  5 s left  part 1 of 2"),
        (61, "50 %  500 B of 1 kB  100 B/s  5 s left"),
        (49, "50 %  500 B of 1 kB  100 B/s  5 s left"),
        (48, "50 %  500 B of 1 kB"),
        (10, "50 %"),
    ],
)
def test_what_stands_behind_the_bar_goes_before_the_bar_does(width: int, tail: str) -> None:
    line = transfer_text(Transfer("x", 500, 1000, 100.0, 5.0, "part 1 of 2"), width)
    assert line.endswith(tail) and len(line) <= width
    assert ("[" in line) == (width > 10)


@pytest.mark.parametrize(
    ("speed", "left", "tail"),
    [
        (None, None, "1 kB"),
        (0.0, None, "1 kB  0 B/s"),
        (2e3, 0.4, "1 kB  2 kB/s"),
        (2e3, 1.0, "1 kB  2 kB/s  1 s left"),
    ],
)
def test_a_speed_of_nothing_is_told_and_less_than_a_second_is_not(
    speed: float | None, left: float | None, tail: str
) -> None:
    assert transfer_text(Transfer("x", 500, 1000, speed, left), 100).endswith(tail)


def test_what_comes_from_a_server_is_escaped() -> None:
    assert transfer_text(Transfer("x\x1b", 500, None, note="\x1b[2J"), 100) == "x\\x1b 500 B  \\x1b[2J"


def test_away_from_a_terminal_the_time_left_is_told_from_a_second_on() -> None:
    out = io.StringIO()
    with ProgressLine(out) as progress:
        for done, left in ((100, 0.9), (150, 5.0), (200, 1.0)):
            progress.show(Transfer("x", done, 1000, 1.0, left))
    assert out.getvalue().splitlines() == ["x (1 kB)", "x: 10 %", "x: 20 %, 1 s left"]
