"""The connection to sessions.db: opened when it is needed, repaired where it is damaged, with errors for a person."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from app.chat import damage, rows, schema
from app.chat.damage import Notify
from app.errors import StoreError, printable
from app.settings import private_dir

BUSY_S = 2.0  # how long one try waits for another process

T = TypeVar("T")

_WHY = {
    sqlite3.SQLITE_BUSY: ("another program is using it", "close that program, or wait until it is done"),
    sqlite3.SQLITE_LOCKED: ("another program is using it", "close that program, or wait until it is done"),
    sqlite3.SQLITE_FULL: ("the disk is full", "make room on the disk"),
    sqlite3.SQLITE_READONLY: ("it is read-only", "allow writing to the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "allow reading and writing of the file and its folder"),
}


class Database:
    """One connection to the file at `path`, for one thread at a time. Raises StoreError where it cannot be used."""

    def __init__(self, path: Path, notify: Notify) -> None:
        self.path = path
        self._notify = notify
        self._file: damage.Identity | None = None  # that the connection is to
        self._connection: sqlite3.Connection | None = None

    @property
    def shown(self) -> str:
        """The path, for a message."""
        return printable(str(self.path), 300)

    def close(self) -> None:
        """Give the file back. It is opened again when it is used again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction of its own."""

        def in_transaction(connection: sqlite3.Connection) -> T:
            with schema.transaction(connection):
                return work(connection)

        return self.run(in_transaction)

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`; where the file turns out to be damaged, repair it and run `work` once more."""
        try:
            try:
                return work(self._opened())
            except sqlite3.DatabaseError as error:
                if damage.is_index_damage(error) and self._index_rebuilt():
                    return work(self._opened())
                if not damage.is_damage(error):
                    raise
                self.close()
                damage.repair(self.path, self._file, self._notify)
                return work(self._opened())
        except sqlite3.Error as error:
            why, hint = _WHY.get((getattr(error, "sqlite_errorcode", None) or 0) & 0xFF, (str(error), None))
            raise StoreError(f"cannot use the chats: {why} ({self.shown})", hint) from error
        except OSError as error:
            raise StoreError(f"cannot use the chats: {error.strerror} ({self.shown})") from error

    def _index_rebuilt(self) -> bool:
        try:
            schema.rebuild_index(self._opened())
        except sqlite3.DatabaseError as error:
            if damage.is_damage(error):
                return False
            raise
        self._notify("the search index of the chats was damaged; it was made anew, and no chat was touched")
        return True

    def _opened(self) -> sqlite3.Connection:
        """The connection, to the file that the path names now: another window may have replaced a damaged one."""
        if self._connection is None or damage.identity(self.path) != self._file:
            if self._connection is not None and not self.path.exists():
                self._notify(f"{self.shown} was removed while it was in use; a new one is begun")
            self.close()
            self._connect()
        assert self._connection is not None
        return self._connection

    def _connect(self) -> None:
        self._prepare_file()
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw", BUSY_S, isolation_level=None, check_same_thread=False, uri=True
        )
        try:
            connection.text_factory = rows.text_from
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA synchronous = FULL")
            schema.migrate(connection, self._keep_copy_of_layout)
            connection.execute("SELECT max(updated) FROM session").fetchone()
            connection.execute("PRAGMA journal_mode = WAL").fetchone()  # only now that the file is known to be ours
        except schema.NewerLayoutError:
            connection.close()
            raise StoreError(f"{self.shown} was made by a newer qchat", "update qchat to use these chats") from None
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _prepare_file(self) -> None:
        """What can be said about the file before SQLite sees it; `self._file` is which file that is."""
        path = self.path
        private_dir(path.parent)
        self._file = damage.identity(path)
        if self._file is None:
            if damage.log_file(path).exists():
                damage.repair(path, self._file, self._notify)
            else:
                damage.create(path)
        elif path.is_dir():
            raise StoreError(f"{self.shown} is a folder, and qchat keeps its chats in a file there", "move it away")
        elif not os.access(path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise StoreError(
                f"{self.shown} may not be read and written", f"allow it again: chmod 600 {printable(str(path), 300)}"
            )
        elif path.stat().st_size == 0:
            damage.repair(path, self._file, self._notify)
        elif os.name == "posix" and path.stat().st_mode & 0o077:
            with contextlib.suppress(PermissionError):  # somebody else's file
                path.chmod(0o600)
        self._file = damage.identity(path)

    def _keep_copy_of_layout(self, layout: int) -> None:
        copy = self.path.with_name(f"{self.path.name}.layout-{layout}")
        copy.unlink(missing_ok=True)
        os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(sqlite3.connect(self.path)) as source:
            source.execute("VACUUM INTO ?", (str(copy),))
