"""S01: a process that is killed while it saves loses nothing that was saved; bench/kill_store.py has more rounds."""

from __future__ import annotations

from pathlib import Path

from tests.chat.killing import check, kill_while_saving


def test_a_killed_process_loses_nothing_that_was_saved(path: Path) -> None:
    rounds = [kill_while_saving(path, after_pieces=1 + 4 * number) for number in range(10)]
    lost = check(path, rounds)
    assert len(lost) == 10 and max(lost) <= 1.0
    assert not list(path.parent.glob("*damaged*"))
