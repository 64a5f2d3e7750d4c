"""The layout of sessions.db and how an older layout becomes the present one.

The layout's number is SQLite's `user_version`; step n leads from layout n to layout n + 1. A file that qchat did not
make, or that a newer qchat made, is never written to. Columns are only ever appended, so that `damage` can read the
rows of every layout.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

APPLICATION_ID = 0x71636874  # "qcht", in the header of every file of ours

# `saved` is when a row was last written: a reply that is still "streaming" long after that has lost its program.
# `deleted` is when a person deleted the chat. A parent is no foreign key: messages may be saved in any order.
# The long columns come last, so that the others are read without walking through the pages of the text.
_SESSION = """
CREATE TABLE session (
    id TEXT PRIMARY KEY NOT NULL,
    title TEXT NOT NULL,
    titled_by_person INTEGER NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    leaf_id TEXT,
    deleted REAL,
    settings TEXT NOT NULL
)"""
_MESSAGE = """
CREATE TABLE message (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    parent_id TEXT,
    role TEXT NOT NULL,
    state TEXT NOT NULL,
    model TEXT NOT NULL,
    created REAL NOT NULL,
    saved REAL NOT NULL,
    timing TEXT NOT NULL,
    notices TEXT NOT NULL,
    tool_calls TEXT NOT NULL,
    content TEXT NOT NULL,
    thinking TEXT NOT NULL
)"""
# The search index holds finished messages only: a reply that is saved twice a second is indexed once.
_INDEX = """
CREATE VIRTUAL TABLE message_text
USING fts5 (content, content='message', content_rowid='number', tokenize='trigram')"""
_UNINDEX_ROW = """
INSERT INTO message_text (message_text, rowid, content)
SELECT 'delete', old.number, old.content WHERE old.state <> 'streaming';"""
_INDEX_ROW = """
INSERT INTO message_text (rowid, content) SELECT new.number, new.content WHERE new.state <> 'streaming';"""

Step = Sequence[str]
STEPS: Sequence[Step] = (
    (
        f"PRAGMA application_id = {APPLICATION_ID}",
        _SESSION,
        _MESSAGE,
        "CREATE INDEX message_of_session ON message (session_id, id)",
        "CREATE INDEX message_streaming ON message (number) WHERE state = 'streaming'",
        _INDEX,
        f"CREATE TRIGGER message_added AFTER INSERT ON message BEGIN {_INDEX_ROW} END",
        f"CREATE TRIGGER message_removed AFTER DELETE ON message BEGIN {_UNINDEX_ROW} END",
        f"""CREATE TRIGGER message_changed AFTER UPDATE OF content, state ON message
        WHEN old.content <> new.content OR old.state <> new.state BEGIN {_UNINDEX_ROW} {_INDEX_ROW} END""",
    ),
)


class ForeignDatabaseError(sqlite3.DatabaseError):
    """The file is a database, but none that qchat made."""


class NewerLayoutError(Exception):
    """The file was made by a newer qchat."""


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing. Takes the write lock at the start, so that what was read inside still holds at the end."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite itself has rolled back after some errors
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def create(connection: sqlite3.Connection, steps: Sequence[Step] = STEPS) -> None:
    """Give an empty file the present layout."""
    with transaction(connection):
        _apply(connection, 0, steps)


def migrate(connection: sqlite3.Connection, keep_copy: Callable[[int], None], steps: Sequence[Step] = STEPS) -> None:
    """Bring the file to the present layout, in one transaction; `keep_copy` is called first, with the old number.

    Raises NewerLayoutError, ForeignDatabaseError, and sqlite3.Error for a file that cannot be read or written.
    """
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    found = _version(connection)
    if owner != APPLICATION_ID or found == 0:
        raise ForeignDatabaseError("not a file of qchat's")
    if found > len(steps):
        raise NewerLayoutError
    if found < len(steps):
        keep_copy(found)
        with transaction(connection):
            _apply(connection, _version(connection), steps)  # another window may have been quicker


def rebuild_index(connection: sqlite3.Connection) -> None:
    """Make the search index anew from the messages."""
    with transaction(connection):
        connection.execute("INSERT INTO message_text (message_text) VALUES ('delete-all')")
        connection.execute(
            "INSERT INTO message_text (rowid, content) SELECT number, content FROM message WHERE state <> 'streaming'"
        )


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _apply(connection: sqlite3.Connection, found: int, steps: Sequence[Step]) -> None:
    for step in steps[found:]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(steps)}")
