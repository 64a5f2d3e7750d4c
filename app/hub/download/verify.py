"""The SHA-256 of a part, taken while it grows: what is here from the first byte on is read again and added."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

STEP = 1 << 20  # bytes; about a millisecond


class GrowingHash:
    """Of the file at `path`, which is read from its first byte on. A context manager, for the open file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hash = hashlib.sha256()
        self._file: BinaryIO | None = None
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
        data = self._file.read(min(STEP, frontier - self.done))
        self._hash.update(data)
        self.done += len(data)
        return bool(data)

    def hexdigest(self) -> str:
        """The hash of what was taken in so far."""
        return self._hash.hexdigest()
