"""The SHA-256 of a part, taken while it grows: what is here from the first byte on is read again and added."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

STEP = 8 << 20  # bytes taken in at a time; about ten milliseconds
BUFFER = 256 << 10  # bytes; small enough to stay in the processor's cache between reading and hashing


class GrowingHash:
    """Of the file at `path`, which is read from its first byte on. A context manager, for the open file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hash = hashlib.sha256()
        self._file: BinaryIO | None = None
        self._buffer = memoryview(bytearray(BUFFER))
        self.done = 0  # bytes

    def __enter__(self) -> GrowingHash:
        self._file = self._path.open("rb", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def begin_again(self) -> None:
        """Forget what was read."""
        self._hash, self.done = hashlib.sha256(), 0

    def advance(self, frontier: int, at_least: int = STEP) -> bool:
        """Take in up to STEP bytes more if there are `at_least` so many before `frontier`; whether there were."""
        if frontier - self.done < at_least or self._file is None:
            return False
        self._file.seek(self.done)
        stop = min(frontier, self.done + STEP)
        while self.done < stop:
            got = self._file.readinto(self._buffer[: stop - self.done])  # type: ignore[attr-defined]
            if not got:
                return False
            self._hash.update(self._buffer[:got])
            self.done += got
        return True

    def hexdigest(self) -> str:
        """The hash of what was taken in so far."""
        return self._hash.hexdigest()
