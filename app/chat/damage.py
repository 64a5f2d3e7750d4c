"""A damaged sessions.db: the original is kept aside, what can be read goes into a new file, and a person is told.

Nothing is written before the copy of the original is on the disk, and no file is ever taken for "new and empty" because
it could not be read. New files are built aside and then renamed into place, so a file of 0 bytes is always damage.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from app.chat import rows, schema
from app.chat.bulk import add_messages
from app.chat.pages import FoundRow, read_rows
from app.errors import printable

Notify = Callable[[str], None]
Identity = tuple[int, int]  # device and inode: which file a path means now

LOCK_WAIT_S = 30.0
PART_LOST = "a part of this message could not be read: the file of the chats was damaged"
BEFORE_LOST = "what came before this message could not be read: the file of the chats was damaged"
LOST_CHAT = "recovered chat"


def is_damage(error: sqlite3.Error) -> bool:
    """Whether `error` says that the file itself is bad, and not the disk, a lock or a statement."""
    code = getattr(error, "sqlite_errorcode", None)
    damaged = code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return damaged or isinstance(error, (schema.ForeignDatabaseError, rows.DamagedRowError))


def is_index_damage(error: sqlite3.Error) -> bool:
    """Whether only the search index is bad, which can be made anew from the messages."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_CORRUPT_VTAB


def log_file(path: Path) -> Path:
    """The write-ahead log that belongs to the database `path`."""
    return path.with_name(path.name + "-wal")


def identity(path: Path) -> Identity | None:
    """Which file `path` is now; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def making_file(path: Path) -> Iterator[None]:
    """One process at a time makes or replaces the file. The lock is SQLite's own, which every system has."""
    with closing(sqlite3.connect(path.with_name(path.name + ".lock"), LOCK_WAIT_S, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield


def create(path: Path) -> None:
    """A new file without chats, if there is still none."""
    with making_file(path):
        if not path.exists():
            _build(path, (), ())


def repair(path: Path, damaged: Identity | None, notify: Notify) -> None:
    """Replace the file `damaged` by what can be read of it; nothing to do if another window has done so already."""
    with making_file(path):
        if identity(path) != damaged:
            return
        kept = _keep_aside(path)
        sessions, messages = _salvage(path)
        _build(path, sessions, messages)
    found = f"chats read and kept: {len(sessions):,}, with messages: {len(messages):,}"
    notify(
        f"the file of the chats was damaged; {found if sessions else 'nothing in it could be read'}; "
        f"the original is {printable(str(kept), 300)}"
    )


def _keep_aside(path: Path) -> Path:
    name = f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    kept = path.with_name(name)
    count = 1
    while kept.exists() or log_file(kept).exists():
        count += 1
        kept = path.with_name(f"{name}-{count}")
    for original, copy in ((path, kept), (log_file(path), log_file(kept))):
        if original.exists():
            with original.open("rb") as source, os.fdopen(_new_private_file(copy), "wb") as target:
                shutil.copyfileobj(source, target)
                target.flush()
                os.fsync(target.fileno())
    return kept if kept.exists() else log_file(kept)


def _salvage(path: Path) -> tuple[Sequence[rows.Row], Sequence[rows.Row]]:
    """The rows of sessions and messages that can be read; where a row is found twice, the one saved last."""
    database, log = (file.read_bytes() if file.exists() else b"" for file in (path, log_file(path)))
    sessions: dict[str, rows.Row] = {}
    messages: dict[str, rows.Row] = {}
    for found in read_rows(database, log):
        if (session := _session(found)) and session[4] >= sessions.get(session[0], session)[4]:
            sessions[session[0]] = session
        elif (message := _message(found)) and message[7] >= messages.get(message[0], message)[7]:
            messages[message[0]] = message
    for message in list(messages.values()):
        if message[2] is not None and message[2] not in messages:
            messages[message[0]] = _with_notice(message, BEFORE_LOST)
        if message[1] not in sessions:
            created = message[6]
            sessions[message[1]] = (message[1], LOST_CHAT, 0, created, created, None, None, "{}")
    return list(sessions.values()), [messages[key] for key in sorted(messages)]


def _session(found: FoundRow) -> rows.Row | None:
    if len(found.columns) != 8:
        return None
    session_id, title, by_person, created, updated, leaf_id, deleted, settings = found.columns
    if not (_is_text(session_id, title, settings) and _is_number(by_person, created, updated)):
        return None
    row = (session_id, title, by_person, float(created), float(updated), leaf_id, deleted, settings)
    try:
        rows.session_from(row)
    except rows.DamagedRowError:
        row = (*row[:-1], "{}")
    return row


def _message(found: FoundRow) -> rows.Row | None:
    """A message, also one without its end: the columns at the end are the long ones, and those can be cut."""
    if len(found.columns) != 14:
        return None
    _number, *columns = found.columns  # the row number stands outside the record
    message_id, session_id, parent_id, role, state, model, created, saved, *texts = columns
    if role not in rows.ROLES or state not in rows.STATES or not _is_text(message_id, session_id, model, *texts):
        return None
    if not _is_number(created, saved):
        return None
    row: rows.Row = (message_id, session_id, parent_id, role, state, model, float(created), float(saved), *texts)
    try:
        rows.message_from(row, saved)
    except rows.DamagedRowError:
        return _with_notice((*row[:8], "{}", "[]", "[]", *row[11:]), PART_LOST)
    return row if found.whole else _with_notice(row, PART_LOST)


def _with_notice(message: rows.Row, notice: str) -> rows.Row:
    notices = json.dumps([*json.loads(message[9]), notice], ensure_ascii=False)
    return *message[:9], notices, *message[10:]


def _is_text(*values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_number(*values: Any) -> bool:
    return all(isinstance(value, (int, float)) for value in values)


def _build(path: Path, sessions: Sequence[rows.Row], messages: Sequence[rows.Row]) -> None:
    """Write a new file aside, then put it in the place of `path`.

    The log of the old file goes first: SQLite would play it into the new one.
    """
    new = path.with_name(path.name + ".new")
    for left_over in (new, path.with_name(new.name + "-journal")):  # by a process that was killed here
        left_over.unlink(missing_ok=True)
    os.close(_new_private_file(new))
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        schema.create(connection)
        with schema.transaction(connection):
            connection.executemany(rows.ADD_SESSION, sessions)
            add_messages(connection, messages)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    new.replace(path)
    if os.name == "posix":  # the rename itself has to survive a power cut
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def _new_private_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
