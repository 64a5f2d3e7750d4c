"""Chats and messages as rows of sessions.db, and back. The order of the columns is that of `schema`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, cast, get_args

from app.chat.conversation import Message, Role, Session, State
from app.chat.text import well_formed
from app.templates.reply import ToolCall

SESSION_COLUMNS = "id, title, titled_by_person, created, updated, leaf_id, deleted, settings"
MESSAGE_COLUMNS = (
    "id, session_id, parent_id, role, state, model, created, saved, timing, notices, tool_calls, content, thinking"
)
ADD_SESSION = f"INSERT INTO session ({SESSION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
MESSAGE_VALUES = MESSAGE_COLUMNS.count(",") + 1


def add_messages(count: int) -> str:
    """The statement that inserts so many messages."""
    one = f"({', '.join('?' * MESSAGE_VALUES)})"
    return f"INSERT INTO message ({MESSAGE_COLUMNS}) VALUES {', '.join([one] * count)}"


# Repeating either is harmless. A title that a person gave is not replaced by one that another window made up.
PUT_SESSION = f"""{ADD_SESSION} ON CONFLICT (id) DO UPDATE SET
    title = iif(titled_by_person AND NOT excluded.titled_by_person, title, excluded.title),
    titled_by_person = max(titled_by_person, excluded.titled_by_person),
    updated = max(updated, excluded.updated), leaf_id = excluded.leaf_id, settings = excluded.settings"""
PUT_MESSAGE = f"""{add_messages(1)} ON CONFLICT (id) DO UPDATE SET
    state = excluded.state, model = excluded.model, saved = excluded.saved, timing = excluded.timing,
    notices = excluded.notices, tool_calls = excluded.tool_calls, content = excluded.content,
    thinking = excluded.thinking"""

Row = Sequence[Any]
LOST_AFTER_S = 10.0  # a reply is saved about twice a second; one that was not for so long has lost its program
ROLES = frozenset(get_args(Role))
STATES = frozenset(get_args(State))


class DamagedRowError(sqlite3.DatabaseError):
    """What a row holds makes no sense, although SQLite could read it."""


def text_from(data: bytes) -> str:
    """A text column of a row. Raises DamagedRowError for bytes that nobody could have written."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DamagedRowError from error


def session_row(session: Session) -> Row:
    """The row of a chat that is not deleted."""
    return (
        session.id,
        well_formed(session.title),
        int(session.titled_by_person),
        session.created,
        session.updated,
        session.leaf_id,
        None,
        _json(dict(session.settings)),
    )


def session_from(row: Row) -> Session:
    """The chat in a row of SESSION_COLUMNS. Raises DamagedRowError."""
    session_id, title, by_person, created, updated, leaf_id, _deleted, settings = row
    try:
        return Session(session_id, title, bool(by_person), created, updated, leaf_id, dict(json.loads(settings)))
    except (ValueError, TypeError) as error:
        raise DamagedRowError from error


def message_row(session_id: str, message: Message, saved: float) -> Row:
    """The row of a message that is saved at `saved` (seconds since 1970)."""
    return (
        message.id,
        session_id,
        message.parent_id,
        message.role,
        message.state,
        well_formed(message.model),
        message.created,
        saved,
        _json(dict(message.timing)),
        _json(list(message.notices)),
        _json([asdict(call) for call in message.tool_calls]),
        well_formed(message.content),
        well_formed(message.thinking),
    )


def message_from(row: Row, now: float) -> Message:
    """The message in a row of MESSAGE_COLUMNS; one that nobody saves any more is "interrupted".

    Raises DamagedRowError.
    """
    message_id, _session_id, parent_id, role, state, model, created, saved, timing, notices, calls, *texts = row
    content, thinking = texts
    if role not in ROLES or state not in STATES:
        raise DamagedRowError
    try:
        message = Message(
            message_id,
            parent_id,
            cast(Role, role),
            content,
            thinking,
            tuple(ToolCall(**call) for call in json.loads(calls)),
            tuple(json.loads(notices)),
            cast(State, state),
            model,
            created,
            dict(json.loads(timing)),
        )
    except (ValueError, TypeError) as error:
        raise DamagedRowError from error
    if state == "streaming" and abs(now - saved) > LOST_AFTER_S:
        return replace(message, state="interrupted")
    return message


def _json(value: Any) -> str:
    return well_formed(json.dumps(value, ensure_ascii=False))
