"""Adds many messages at once, as an import and a repair do.

Before a statement that could fail half-way SQLite has the search index write down what it has gathered. With a
statement a message that is a part of the index for each message, and joining all the parts took a third of the time.
So one statement adds messages of a megabyte together.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

from app.chat import rows
from app.chat.rows import Row

BATCH_BYTES = 1_000_000  # of UTF-8
BATCH_ROWS = 500

Report = Callable[[int, int], None]  # bytes of text that are added, and of all


def silent(_done: int, _total: int) -> None:
    """A report that nobody hears."""


def add_messages(connection: sqlite3.Connection, added: Sequence[Row], report: Report = silent) -> None:
    """Insert rows of MESSAGE_COLUMNS, inside a transaction. `report` is called between batches, so not for a few rows.

    What `report` raises ends it; the transaction then takes back what was added.
    """
    sizes = [_text_bytes(row) for row in added]
    total = sum(sizes)
    done = 0
    for start, end in _batches(sizes, connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)):
        batch = added[start:end]
        connection.execute(rows.add_messages(len(batch)), [value for row in batch for value in row])
        done += sum(sizes[start:end])
        if end < len(added):
            report(done, total)


def _batches(sizes: Sequence[int], most_values: int) -> Iterator[tuple[int, int]]:
    """Where each batch starts and ends. One message may be larger than a batch."""
    most_rows = min(BATCH_ROWS, most_values // rows.MESSAGE_VALUES)
    start = size = 0
    for end, next_size in enumerate(sizes):
        if end > start and (size + next_size > BATCH_BYTES or end - start == most_rows):
            yield start, end
            start, size = end, 0
        size += next_size
    if start < len(sizes):
        yield start, len(sizes)


def _text_bytes(row: Row) -> int:
    content, thinking = row[-2:]
    return len(content.encode()) + len(thinking.encode())
