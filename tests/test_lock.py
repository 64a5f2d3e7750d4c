"""The lock that several qchats share: one holds it, whatever ends that one, and nothing is left of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import app.lock
from app.errors import QChatError
from app.lock import alone, alone_if_free


def test_a_lock_is_held_by_one_at_a_time_and_goes_away(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with alone(lock, lambda: None), alone_if_free(lock) as free:
        assert not free
    assert not lock.exists()
    with alone_if_free(lock) as free:
        assert free
    assert not lock.exists()


def test_of_many_that_want_it_one_at_a_time_has_it(tmp_path: Path) -> None:
    """Each makes the file anew or finds the one that the last holder is about to remove."""
    crowd: list[OSError] = []

    def hold() -> None:
        for _ in range(50):
            with alone(tmp_path / "lock", lambda: None):
                try:
                    (tmp_path / "inside").mkdir()
                    (tmp_path / "inside").rmdir()
                except OSError as error:
                    crowd.append(error)

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert crowd == [] and not (tmp_path / "lock").exists()


def test_a_file_that_went_between_opening_and_locking_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "lock", app.lock._lock

    def late(file: int) -> bool:
        monkeypatch.setattr(app.lock, "_lock", real)
        path.unlink()  # as its holder does at the end
        return real(file)

    monkeypatch.setattr(app.lock, "_lock", late)
    with alone(path, lambda: None), alone_if_free(path) as free:
        assert not free


def test_the_file_goes_before_anybody_else_can_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the file of the next holder would be removed, and a third one would make it anew."""
    seen: list[bool] = []
    unlink = Path.unlink

    def look(path: Path) -> None:
        monkeypatch.setattr(Path, "unlink", unlink)
        with alone_if_free(path) as free:
            seen.append(free)
        unlink(path, missing_ok=True)

    with alone(tmp_path / "lock", lambda: None):
        monkeypatch.setattr(Path, "unlink", look)
    assert seen == [False]


def test_a_long_wait_takes_no_files(tmp_path: Path) -> None:
    with alone(tmp_path / "lock", lambda: None):
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(10):
            with alone_if_free(tmp_path / "lock"):
                pass
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_error_inside_gives_it_back(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inside"), alone(tmp_path / "lock", lambda: None):
        raise ValueError("inside")
    assert not (tmp_path / "lock").exists()


def test_what_cannot_be_locked_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(QChatError, match=r"no/lock cannot be locked: No such file"),
        alone(tmp_path / "no" / "lock", print),
    ):
        pass
