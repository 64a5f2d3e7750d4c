"""Reads chats back out of qchat's JSON. Nothing that is in the store is changed or replaced by it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.chat import rows
from app.chat.bulk import Report, silent
from app.chat.conversation import Message, Session, new_message, new_session
from app.chat.export import FORMAT, VERSION
from app.chat.store import Store
from app.chat.text import well_formed
from app.errors import UsageError, printable
from app.templates.reply import ToolCall

_HINT = "'qchat sessions export --json' makes such a file"


@dataclass(frozen=True)
class Imported:
    """What became of one chat of a file: how many messages are new, and whether it got an id of its own."""

    session: Session
    added: int
    renumbered: bool


def import_json(store: Store, text: str, name: str, report: Report = silent) -> list[Imported]:
    """Add the chats of a JSON export to `store`, all of them or none; nothing that is there is changed or replaced.

    A chat whose id is taken becomes a new one, with new ids. What a file of unsaved messages has of a chat that is
    here goes into that chat. `name` is what messages call the file. `report` hears how far a large one is; what it
    raises takes everything back. Raises UsageError for a file that is not ours.
    """
    document = _document(text, printable(name, 200))
    chats = [_chat(chat, printable(name, 200)) for chat in document["chats"]]  # all are read before one is added
    here = {summary.session.id: summary.session for summary in store.sessions()} if document.get("partial") else {}
    outcomes = []
    new: list[tuple[Session, Sequence[Message]]] = []
    taken: set[str] = set()  # by chats of this file
    for session, messages in chats:
        if session.id in here:
            outcomes.append(_complete(store, here[session.id], messages))
            continue
        ids = {session.id, *(message.id for message in messages)}
        renumbered = not taken.isdisjoint(ids) or bool(store.known(ids))
        new.append(_renumbered(session, messages) if renumbered else (session, messages))
        taken |= ids
        outcomes.append(Imported(new[-1][0], len(messages), renumbered))
    store.add(new, report)
    return outcomes


def _renumbered(session: Session, messages: Sequence[Message]) -> tuple[Session, Sequence[Message]]:
    """The same chat with ids that nothing has yet; they sort as the old ones do."""
    in_order = sorted(message.id for message in messages)
    ids = dict(zip(in_order, sorted(new_message(None, "user", "").id for _ in in_order), strict=True))
    copies = [replace(m, id=ids[m.id], parent_id=ids.get(m.parent_id or "")) for m in messages]
    return replace(session, id=new_session().id, leaf_id=ids.get(session.leaf_id or "")), copies


def _complete(store: Store, session: Session, messages: Sequence[Message]) -> Imported:
    """Add what `session` lacks; another version of a message that it has becomes a branch beside that message."""
    here = {message.id: message for message in store.messages(session.id)}
    new_ids: dict[str, str] = {}
    lacking = []
    for message in sorted(messages, key=lambda m: m.id):
        known = here.get(message.id)
        if known is not None and (known.content, known.thinking) == (message.content, message.thinking):
            continue
        if known is not None:
            new_ids[message.id] = new_message(None, message.role, "").id
        parent_id = new_ids.get(message.parent_id or "", message.parent_id)
        lacking.append(replace(message, id=new_ids.get(message.id, message.id), parent_id=parent_id))
    store.put_messages(session.id, lacking)
    return Imported(session, len(lacking), False)


def _document(text: str, name: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"{name} is not JSON", _HINT) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(f"{name} is not a file of chats that qchat exported", _HINT)
    if document.get("version") != VERSION:
        raise UsageError(f"{name} was exported by another version of qchat", "update qchat to import it")
    if not isinstance(document.get("chats"), list):
        raise UsageError(f"{name} holds no list of chats", _HINT)
    return document


def _chat(chat: Any, name: str) -> tuple[Session, list[Message]]:
    try:
        session = Session(
            _text(chat["id"]),
            _text(chat["title"]),
            bool(chat["titled_by_person"]),
            float(chat["created"]),
            float(chat["updated"]),
            None if chat["leaf_id"] is None else _text(chat["leaf_id"]),
            dict(chat["settings"]),
        )
        messages = [_message(message) for message in chat["messages"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{name} holds a chat that cannot be read ({printable(repr(error))})", _HINT) from error
    if len({message.id for message in messages}) < len(messages):
        raise UsageError(f"{name} holds two messages with one id", _HINT)
    return session, messages


def _message(message: Mapping[str, Any]) -> Message:
    role, state = message["role"], message["state"]
    if role not in rows.ROLES or state not in rows.STATES:
        raise ValueError(f"{role}, {state}")
    return Message(
        _text(message["id"]),
        None if message["parent_id"] is None else _text(message["parent_id"]),
        role,
        _text(message["content"]),
        _text(message["thinking"]),
        tuple(ToolCall(_text(c["name"]), dict(c["arguments"]), _text(c["raw"])) for c in message["tool_calls"]),
        tuple(_text(notice) for notice in message["notices"]),
        "interrupted" if state == "streaming" else state,
        _text(message["model"]),
        float(message["created"]),
        {_text(key): float(value) for key, value in message["timing"].items()},
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return well_formed(value)
