"""Keyrings for tests: one in memory, one in a file for other processes, and one that is locked."""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked


class MemoryKeyring(KeyringBackend):
    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, str] = {}
        self.asked = 0

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        return self.kept.get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[f"{service} {username}"] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[f"{service} {username}"]


class FileKeyring(MemoryKeyring):
    """For a process that finds it through PYTHON_KEYRING_BACKEND; the file is TEST_KEYRING."""

    def __init__(self) -> None:
        super().__init__()
        self._file = Path(os.environ.get("TEST_KEYRING", os.devnull))
        self.kept = json.loads(self._file.read_text() or "{}") if self._file.exists() else {}

    def set_password(self, service: str, username: str, password: str) -> None:
        super().set_password(service, username, password)
        self._file.write_text(json.dumps(self.kept))

    def delete_password(self, service: str, username: str) -> None:
        super().delete_password(service, username)
        self._file.write_text(json.dumps(self.kept))


class LockedKeyring(MemoryKeyring):
    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked("the collection is \x1b locked")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise KeyringLocked("the collection is \x1b locked")
