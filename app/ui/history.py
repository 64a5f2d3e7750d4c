"""What a person typed before, for the up key: one file for the REPL and the app's composer.

One JSON string a line, the oldest first. Several windows write to it, so every write happens under a lock, and a line
that a crash cut off spoils no other. The file is kept small: the newest entries stay, the others go.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from app.chat.text import well_formed
from app.errors import QChatError, printable
from app.lock import alone
from app.settings import paths, private_dir

_POLL_S = 0.01  # a write takes less
MOST_ENTRIES = 1_000
MOST_BYTES = 1_000_000  # of UTF-8; a single entry beyond that is not kept


class InputHistory:
    """The entries of one file. It may grow to twice its bounds before it is cut back to them."""

    def __init__(self, path: Path, most_entries: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most_entries = most_entries
        self._most_bytes = most_bytes

    @classmethod
    def default(cls) -> InputHistory:
        """The history of this user."""
        return cls(paths().data_dir / "input-history.jsonl")

    def entries(self) -> Sequence[str]:
        """Every entry, oldest first; none if there is no file. Raises QChatError if it cannot be read."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._failure("read", error) from error
        return [entry for line in lines if (entry := _entry(line)) is not None]

    def add(self, text: str) -> None:
        """Put `text` at the end, unless it is blank or the last entry already. Raises QChatError if that fails."""
        text = well_formed(text)
        line = _line(text)
        if not text.strip() or len(line) > self._most_bytes:
            return
        try:
            private_dir(self.path.parent)
            with alone(self.path.with_name(self.path.name + ".lock"), lambda: time.sleep(_POLL_S)):
                kept = self.entries()
                if kept[-1:] == [text]:
                    return
                size = self.path.stat().st_size if kept else 0
                if len(kept) < 2 * self._most_entries and size + len(line) <= 2 * self._most_bytes:
                    self._append(line)
                else:
                    self._replace([*kept, text])
        except OSError as error:
            raise self._failure("written", error) from error

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(end - 1, 0))
            cut_off = end and file.read(1) != b"\n"
            file.write((b"\n" if cut_off else b"") + line)

    def _replace(self, entries: Sequence[str]) -> None:
        """Write the newest of `entries` that are within the bounds, in place of the file."""
        kept: list[bytes] = []
        size = 0
        for entry in reversed(entries[-self._most_entries :]):
            line = _line(entry)
            size += len(line)
            if size > self._most_bytes:
                break
            kept.append(line)
        new = self.path.with_name(self.path.name + ".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(b"".join(reversed(kept)))
        new.replace(self.path)

    def _failure(self, what: str, error: OSError) -> QChatError:
        return QChatError(f"the input history {printable(str(self.path), 300)} cannot be {what}: {error.strerror}")


def _line(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode() + b"\n"


def _entry(line: bytes) -> str | None:
    """The entry in a line; None for one that was cut off."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return well_formed(entry) if isinstance(entry, str) else None
