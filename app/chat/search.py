"""Search over what was said in every chat: all the words of a query, anywhere in a message or a title.

What a person types is looked for as it stands; nothing in it is query syntax. Words of three characters and more are
found by the trigram index, which ends a text at its first NUL; shorter ones by reading the messages. Thinking is not
searched.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from app.chat.conversation import Role

SHORTEST_INDEXED = 3  # characters
BEFORE, SNIPPET = 40, 160  # characters of a snippet before its first match, and in all

_FOUND = "SELECT m.number FROM {source} JOIN session s ON s.id = m.session_id WHERE s.deleted IS NULL AND {matches}"
_INDEXED = "message_text JOIN message m ON m.number = message_text.rowid"


@dataclass(frozen=True)
class SearchHit:
    """One message, or one title (`message_id` and `role` are None). `matches` are (start, end) in `snippet`."""

    session_id: str
    title: str
    message_id: str | None
    role: Role | None
    created: float  # seconds since 1970
    snippet: str
    matches: Sequence[tuple[int, int]]


def search(connection: sqlite3.Connection, query: str, limit: int) -> list[SearchHit]:
    """Titles first, then messages, the best match and the newest first."""
    words = query.replace("\0", " ").split()
    if not words:
        return []
    hits = _titles(connection, words)[:limit]
    for number in _messages(connection, words, limit - len(hits)):
        session_id, title, message_id, role, created, content = connection.execute(
            "SELECT m.session_id, s.title, m.id, m.role, m.created, m.content "
            "FROM message m JOIN session s ON s.id = m.session_id WHERE m.number = ?",
            (number,),
        ).fetchone()
        snippet, matches = excerpt(content, words)
        hits.append(SearchHit(session_id, title, message_id, role, created, snippet, matches))
    return hits


def excerpt(text: str, words: Sequence[str]) -> tuple[str, Sequence[tuple[int, int]]]:
    """One line of `text` around the first of `words` in it, and where the words stand in that line."""
    pattern = re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)), re.IGNORECASE)
    first = pattern.search(text)
    begin = max(0, first.start() - BEFORE) if first else 0
    piece = text[begin : begin + SNIPPET]
    line = " ".join(piece.split())
    line = ("…" if begin else "") + line + ("…" if begin + SNIPPET < len(text) else "")
    return line, tuple(match.span() for match in pattern.finditer(line))


def _titles(connection: sqlite3.Connection, words: Sequence[str]) -> list[SearchHit]:
    rows = connection.execute("SELECT id, title, updated FROM session WHERE deleted IS NULL ORDER BY updated DESC")
    hits = []
    for session_id, title, updated in rows:
        if _contains(title, words):
            snippet, matches = excerpt(title, words)
            hits.append(SearchHit(session_id, title, None, None, updated, snippet, matches))
    return hits


def _messages(connection: sqlite3.Connection, words: Sequence[str], limit: int) -> list[int]:
    """The numbers of the best messages. A reply that has not ended, or whose program died, stands in no index."""
    long = [word for word in words if len(word) >= SHORTEST_INDEXED]
    short = [word for word in words if len(word) < SHORTEST_INDEXED]
    connection.create_function("contains", 1, lambda text: _contains(text, words), deterministic=True)
    unfinished = _FOUND.format(source="message m", matches="m.state = 'streaming' AND contains(m.content)")
    if long:
        matches = "message_text MATCH ?" + (" AND contains(m.content)" if short else "")
        finished = _FOUND.format(source=_INDEXED, matches=matches) + " ORDER BY message_text.rank, m.id DESC"
        parameters = [" AND ".join('"' + word.replace('"', '""') + '"' for word in long)]
    else:
        matches = "m.state <> 'streaming' AND contains(m.content)"
        finished = _FOUND.format(source="message m", matches=matches) + " ORDER BY m.id DESC"
        parameters = []
    found = connection.execute(f"SELECT number FROM ({unfinished} ORDER BY m.id DESC LIMIT ?)", (limit,)).fetchall()
    found += connection.execute(f"{finished} LIMIT ?", (*parameters, limit)).fetchall()
    return [number for (number,) in found[:limit]]


def _contains(text: str, words: Sequence[str]) -> bool:
    lowered = text.lower()
    return all(word.lower() in lowered for word in words)
