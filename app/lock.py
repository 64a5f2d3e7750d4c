"""What one qchat at a time does, while the others wait: fetching a model, compiling the kernels, writing a history.

The lock is the system's, on a file beside what is locked, so a killed process holds nothing. The file goes with the
lock.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.errors import QChatError, printable


@contextmanager
def alone(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock `path`; while somebody else has it, `waiting` is called, which takes its time and may raise.

    Raises QChatError where `path` cannot be made or locked.
    """
    while (held := _hold(path)) is None:
        waiting()
    try:
        yield
    finally:
        _give_back(path, held)


@contextmanager
def alone_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock `path` unless somebody else has it, and tell whether that is so."""
    held = _hold(path)
    try:
        yield held is not None
    finally:
        if held is not None:
            _give_back(path, held)


def _hold(path: Path) -> int | None:
    """The open file of the lock, or None where somebody else holds it."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                locked = _lock(file)
            except BaseException:
                os.close(file)
                raise
        except OSError as error:
            raise QChatError(f"{printable(str(path), 200)} cannot be locked: {error.strerror}") from error
        if locked and _stands_at(path, file):
            return file
        os.close(file)
        if not locked:
            return None  # else it was removed between opening and locking: its holder has just ended


def _stands_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _give_back(path: Path, file: int) -> None:
    with suppress(OSError):  # Windows removes no open file
        path.unlink()
    os.close(file)


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> bool:
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True
else:
    import fcntl

    def _lock(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
