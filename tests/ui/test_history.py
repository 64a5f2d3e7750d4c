"""The history of what was typed: several writers, bounds, damage, and text that is no Unicode."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app.errors import QChatError
from app.lock import alone
from app.ui.history import InputHistory


@pytest.fixture
def history(tmp_path: Path) -> InputHistory:
    return InputHistory(tmp_path / "data" / "history.jsonl", most_entries=3, most_bytes=60)


def test_entries_come_back_in_order_whatever_they_hold(history: InputHistory) -> None:
    assert list(history.entries()) == []
    for text in ("one", "two\nlines\u2028", "🐺"):
        history.add(text)
    assert list(InputHistory(history.path).entries()) == ["one", "two\nlines\u2028", "🐺"]


def test_blank_text_and_a_repetition_are_left_out(history: InputHistory) -> None:
    for text in ("one", "one", " \n", "two", "one"):
        history.add(text)
    assert list(history.entries()) == ["one", "two", "one"]


def test_only_this_user_can_read_it(history: InputHistory) -> None:
    for number in range(9):
        history.add(str(number))
        files = list(history.path.parent.iterdir())
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(history.path.parent.stat().st_mode) == 0o700


def test_the_file_stays_small_and_the_newest_entries_stay(history: InputHistory) -> None:
    for number in range(100):
        history.add(f"entry {number}")
        assert history.path.stat().st_size <= 2 * 60
    kept = list(history.entries())
    assert kept[-3:] == ["entry 97", "entry 98", "entry 99"]
    assert len(kept) <= 6
    history.add("x" * 61)
    assert history.entries()[-1] == "entry 99"


def test_surrogates_are_mended(history: InputHistory) -> None:
    """S04: they made writing the history fail, and took the program down with it."""
    history.add("\ud83d\udc3a and \udc9d")
    assert list(history.entries()) == ["🐺 and \ufffd"]
    history.path.write_bytes(b'"\\ud83d alone"\n')
    assert list(history.entries()) == ["\ufffd alone"]


def test_a_line_that_was_cut_off_spoils_no_other(history: InputHistory) -> None:
    history.add("one")
    with history.path.open("ab") as file:
        file.write(b'{"no": "string"}\n"cut of')
    history.add("two")
    assert list(history.entries()) == ["one", "two"]


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    code = (
        "import sys; from pathlib import Path; from app.ui.history import InputHistory\n"
        "history = InputHistory(Path(sys.argv[1]), most_entries=500)\n"
        "for number in range(40): history.add(f'{sys.argv[2]} {number}')"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "abc"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(entries) == sorted(f"{name} {number}" for name in "abc" for number in range(40))


def test_a_writer_waits_for_the_one_that_has_the_lock(history: InputHistory) -> None:
    history.add("one")
    writer = threading.Thread(target=history.add, args=("two",))
    with alone(history.path.with_name("history.jsonl.lock"), lambda: None):
        writer.start()
        writer.join(timeout=0.1)
        assert writer.is_alive() and list(history.entries()) == ["one"]
    writer.join(timeout=30)
    assert list(history.entries()) == ["one", "two"]


def test_a_file_that_cannot_be_used_is_an_error_for_a_person(history: InputHistory) -> None:
    history.path.mkdir(parents=True)
    with pytest.raises(QChatError, match="cannot be read"):
        history.entries()
    with pytest.raises(QChatError, match="cannot be"):
        history.add("text")
