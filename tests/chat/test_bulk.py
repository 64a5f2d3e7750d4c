"""Many messages at once: none left out, whatever their sizes, and few parts of the search index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from app.chat import bulk, rows, schema
from app.chat.bulk import add_messages
from tests.chat.stores import chat


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        schema.create(connection)
        yield connection


def put(connection: sqlite3.Connection, *contents: str) -> None:
    session, messages = chat("t", *contents)
    with schema.transaction(connection):
        connection.execute(rows.ADD_SESSION, rows.session_row(session))
        add_messages(connection, [rows.message_row(session.id, message, 0.0) for message in messages])


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 25])
def test_every_message_is_added_once_and_in_order(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(bulk, "BATCH_BYTES", 100)
    contents = [f"number {index} " + "é" * (60 if index % 4 == 0 else 1) for index in range(count)]
    put(connection, *contents, "x" * 1000)
    assert [row for (row,) in connection.execute("SELECT content FROM message ORDER BY number")][:-1] == contents


def test_more_messages_than_a_statement_may_have_values(connection: sqlite3.Connection) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 100)
    put(connection, *["short"] * 20)
    assert connection.execute("SELECT count(*) FROM message_text WHERE message_text MATCH 'sho'").fetchone() == (20,)


def test_the_search_index_is_written_once_a_batch(connection: sqlite3.Connection) -> None:
    """Written once a message, it is joined from many parts, which takes a third of the time of an import."""
    (before,) = connection.execute("SELECT count(*) FROM message_text_data").fetchone()
    put(connection, *[f"number {index}" for index in range(12)])  # fewer than are joined by themselves
    (after,) = connection.execute("SELECT count(*) FROM message_text_data").fetchone()
    assert after - before == 1
