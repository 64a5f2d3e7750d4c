"""Every chat in one SQLite file, shared by all windows and by the command line.

A `Store` is one connection, used by one thread at a time; `saver.Saver` keeps it off the event loop. Messages are put
by id, so saving one twice is harmless, and two windows on one chat both keep their messages. The file is written ahead
(WAL) and each save reaches the disk before it returns, so that a power cut loses no more than a crash does.
"""

from __future__ import annotations

import sqlite3
import time
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.chat import bulk, rows
from app.chat.conversation import Message, Session
from app.chat.damage import Notify
from app.chat.database import Database
from app.chat.search import SearchHit, search
from app.chat.text import well_formed
from app.errors import SessionNotFoundError, UsageError, printable
from app.settings import paths

FILE_NAME = "sessions.db"
PREVIEW = 120  # characters


@dataclass(frozen=True)
class SessionSummary:
    """One line of a list of chats: `messages` counts every branch, `preview` is how the newest message begins."""

    session: Session
    messages: int
    preview: str


class Store:
    """The chats of one file. Every method raises StoreError where the file cannot be read or written."""

    def __init__(self, path: Path, notify: Notify) -> None:
        """Use `Store.open`."""
        self.path = path
        self._database = Database(path, notify)

    @classmethod
    def open(cls, path: Path, notify: Notify) -> Store:
        """Open the file, or make it. `notify` gets a sentence for a person when a damaged file was repaired."""
        store = cls(path, notify)
        store._database.run(lambda _: None)
        return store

    @classmethod
    def open_default(cls, notify: Notify) -> Store:
        """The store of this user: sessions.db in the data folder."""
        return cls.open(paths().data_dir / FILE_NAME, notify)

    def close(self) -> None:
        """Give the file back. A store that is used again opens it again."""
        self._database.close()

    def sessions(self) -> list[SessionSummary]:
        """Every chat that is not deleted, the latest first."""
        query = f"""SELECT {rows.SESSION_COLUMNS},
            (SELECT count(*) FROM message WHERE session_id = session.id),
            (SELECT substr(content, 1, {PREVIEW}) FROM message WHERE session_id = session.id ORDER BY id DESC LIMIT 1)
            FROM session WHERE deleted IS NULL ORDER BY updated DESC, id"""

        def read(connection: sqlite3.Connection) -> list[SessionSummary]:
            found = connection.execute(query)
            return [SessionSummary(rows.session_from(row[:-2]), row[-2], row[-1] or "") for row in found]

        return self._database.run(read)

    def session(self, wanted: str) -> Session:
        """The chat with that id, "last" (the latest), or the only one with that title or beginning of an id.

        Raises SessionNotFoundError, and UsageError where several fit.
        """
        query = f"SELECT {rows.SESSION_COLUMNS} FROM session WHERE deleted IS NULL ORDER BY updated DESC, id"
        sessions = self._database.run(lambda c: [rows.session_from(row) for row in c.execute(query)])
        for session in sessions:
            if wanted in (session.id, "last"):
                return session
        title = unicodedata.normalize("NFC", wanted)
        fitting = [s for s in sessions if wanted and s.id.startswith(wanted)]
        fitting += [s for s in sessions if s.title and unicodedata.normalize("NFC", s.title) == title]
        if not fitting:
            raise SessionNotFoundError(f"no chat is called {printable(wanted)!r}", "'qchat sessions list' shows them")
        if len(fitting) > 1:
            listed = ", ".join(f"{s.id} ({printable(s.title, 40)})" for s in fitting[:5])
            more = f" and {len(fitting) - 5} more" if len(fitting) > 5 else ""
            raise UsageError(f"several chats fit {printable(wanted)!r}: {listed}{more}", "give the id of one")
        return fitting[0]

    def put_session(self, session: Session) -> None:
        """Add the chat, or replace what is known of it; its messages are put one by one."""
        self._database.write(lambda connection: connection.execute(rows.PUT_SESSION, rows.session_row(session)))

    def put_message(self, session_id: str, message: Message) -> None:
        """Add the message, or replace the one with its id. SessionNotFoundError if the chat is not in the file."""
        self.put_messages(session_id, [message])

    def put_messages(self, session_id: str, messages: Iterable[Message]) -> None:
        """`put_message` for several, all of them or none."""
        now = time.time()

        def put(connection: sqlite3.Connection) -> None:
            touched = connection.execute(
                "UPDATE session SET updated = max(updated, ?) WHERE id = ?", (now, session_id)
            ).rowcount
            if not touched:
                raise SessionNotFoundError(f"the chat {printable(session_id)} is no longer in {self._database.shown}")
            connection.executemany(rows.PUT_MESSAGE, [rows.message_row(session_id, each, now) for each in messages])

        self._database.write(put)

    def add(self, chats: Iterable[tuple[Session, Sequence[Message]]], report: bulk.Report = bulk.silent) -> None:
        """Add whole chats, all of them or nothing; `updated` stays as it is. StoreError if an id is taken.

        `report` hears how far it is, unless that is soon done; what it raises takes everything back.
        """
        chats = list(chats)
        message_rows = [rows.message_row(session.id, m, m.created) for session, messages in chats for m in messages]

        def insert(connection: sqlite3.Connection) -> None:
            connection.executemany(rows.ADD_SESSION, [rows.session_row(session) for session, _ in chats])
            bulk.add_messages(connection, message_rows, report)

        self._database.write(insert)

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of `ids` that a chat or a message has, also a deleted one."""
        query = "SELECT EXISTS (SELECT 1 FROM session WHERE id = ?1) OR EXISTS (SELECT 1 FROM message WHERE id = ?1)"
        return self._database.run(lambda c: {one for one in ids if c.execute(query, (one,)).fetchone()[0]})

    def messages(self, session_id: str) -> list[Message]:
        """Every message of the chat, of all branches, the oldest first."""
        query = f"SELECT {rows.MESSAGE_COLUMNS} FROM message WHERE session_id = ? ORDER BY id"
        now = time.time()
        return self._database.run(lambda c: [rows.message_from(row, now) for row in c.execute(query, (session_id,))])

    def delete(self, session_id: str) -> None:
        """Take the chat out of every list and search; `undelete` brings it back."""
        self._mark_deleted(session_id, time.time())

    def undelete(self, session_id: str) -> None:
        """Bring a deleted chat back."""
        self._mark_deleted(session_id, None)

    def last_deleted(self) -> str | None:
        """The id of the chat that was deleted last and can be brought back."""
        query = "SELECT id FROM session WHERE deleted IS NOT NULL ORDER BY deleted DESC LIMIT 1"
        row = self._database.run(lambda connection: connection.execute(query).fetchone())
        return row[0] if row else None

    def remove(self, session_id: str) -> None:
        """Remove the chat for good: its bytes are overwritten in the file."""
        self._remove_for_good("id = ?", session_id)

    def purge(self, older_than_s: float) -> int:
        """Remove for good what was deleted at least that long ago; how many chats that were."""
        return self._remove_for_good("deleted <= ?", time.time() - older_than_s)

    def search(self, query: str, limit: int = 50) -> list[SearchHit]:
        """Where every word of `query` occurs, in messages and titles; see `search`."""
        return self._database.run(lambda connection: search(connection, well_formed(query), limit))

    def changes(self) -> int:
        """A number that differs from the last one if another window or process has written since."""
        number: int = self._database.run(lambda connection: connection.execute("PRAGMA data_version").fetchone()[0])
        return number

    def _mark_deleted(self, session_id: str, when: float | None) -> None:
        self._database.write(lambda c: c.execute("UPDATE session SET deleted = ? WHERE id = ?", (when, session_id)))

    def _remove_for_good(self, where: str, value: str | float) -> int:
        """The search index and the log keep traces of what was removed until they are rewritten."""
        count = self._database.write(lambda c: c.execute(f"DELETE FROM session WHERE {where}", (value,)).rowcount)
        if count:
            self._database.write(lambda c: c.execute("INSERT INTO message_text (message_text) VALUES ('optimize')"))
            self._database.run(lambda c: c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
        return count
