"""A conversation as a tree of messages: values only, without storage or backend.

Every message knows its parent, so an edit, another reply or a fork adds a branch and loses nothing. What a person sees
is one path from a first message to a leaf; `Conversation` finds paths and siblings. Ids are made here and not by the
database, so that a message can be shown, and saved later, while the database is busy.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from app.templates.reply import ToolCall

Role = Literal["user", "assistant"]
State = Literal["streaming", "stop", "length", "cancelled", "error", "interrupted"]


@dataclass(frozen=True)
class Message:
    """One message. `state` says how a reply ended; "interrupted" is one whose program died, other messages are "stop".

    `timing` holds what was measured of a reply: `thinking_s`, and the fields of `backends.usage.Usage` that are known.
    """

    id: str
    parent_id: str | None
    role: Role
    content: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    notices: tuple[str, ...] = ()
    state: State = "stop"
    model: str = ""
    created: float = 0.0  # seconds since 1970
    timing: Mapping[str, float] = field(default_factory=dict)

    def as_request(self) -> dict[str, Any]:
        """The message in the OpenAI shape, as the next prompt gets it: its parts, without any tag."""
        return openai_message(self.role, self.content, self.thinking, self.tool_calls)


@dataclass(frozen=True)
class Session:
    """One chat. `settings` are those of this chat alone, by dotted key as in config.toml ("sampling.top_p")."""

    id: str
    title: str = ""  # "" until the first question or a person names it
    titled_by_person: bool = False
    created: float = 0.0
    updated: float = 0.0
    leaf_id: str | None = None  # the end of the path that was looked at last
    settings: Mapping[str, Any] = field(default_factory=dict)


def openai_message(role: Role, content: str, thinking: str, tool_calls: Sequence[ToolCall]) -> dict[str, Any]:
    """The parts of a message in the OpenAI shape; reasoning has the name that vLLM and the Qwen templates give it."""
    message: dict[str, Any] = {"role": role, "content": content}
    if thinking:
        message["reasoning_content"] = thinking
    if tool_calls:
        message["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in tool_calls
        ]
    return message


def new_message(parent_id: str | None, role: Role, content: str, **fields: Any) -> Message:
    """A message with an id of its own; ids sort by the time at which they were made."""
    now = time.time()
    return Message(f"{int(now * 1e6):014x}{secrets.token_hex(4)}", parent_id, role, content, created=now, **fields)


def new_session(settings: Mapping[str, Any] | None = None) -> Session:
    """A chat without messages. Its id is short enough to be typed."""
    now = time.time()
    return Session(secrets.token_hex(4), created=now, updated=now, settings=dict(settings or {}))


class Conversation:
    """The messages of one chat. `leaf_id` is the end of the path that is being looked at."""

    def __init__(self, messages: Iterable[Message] = (), leaf_id: str | None = None) -> None:
        self._messages: dict[str, Message] = {}
        self._children: dict[str | None, list[str]] = {None: []}  # in the order in which they were made
        for message in _parents_first(messages):
            self.put(message)
        self.leaf_id = leaf_id if leaf_id in self._messages else self._newest()

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, message_id: str) -> Message:
        return self._messages[message_id]

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._messages

    def put(self, message: Message) -> None:
        """Add `message`, or replace the one with its id."""
        if message.id not in self._messages:
            parent = message.parent_id if message.parent_id in self._messages else None
            if parent != message.parent_id:
                message = replace(message, parent_id=None)  # its parent could not be read
            self._children[parent].append(message.id)
            self._children.setdefault(message.id, [])
        self._messages[message.id] = message

    def messages(self) -> Sequence[Message]:
        """Every message of every branch, oldest first."""
        return sorted(self._messages.values(), key=lambda message: message.id)

    def path(self) -> Sequence[Message]:
        """From the first message to the leaf."""
        return self.path_to(self.leaf_id)

    def path_to(self, message_id: str | None) -> Sequence[Message]:
        """From the first message to `message_id`, both included."""
        path = []
        while message_id is not None:
            message = self._messages[message_id]
            path.append(message)
            message_id = message.parent_id
        return path[::-1]

    def siblings(self, message_id: str) -> Sequence[str]:
        """The ids of the messages in the same place, oldest first, this one included."""
        return tuple(self._children[self._messages[message_id].parent_id])

    def go_to(self, message_id: str) -> None:
        """Look at `message_id` and the newest of what follows it."""
        while children := self._children[message_id]:
            message_id = children[-1]
        self.leaf_id = message_id

    def _newest(self) -> str | None:
        return max(self._messages, default=None)


def _parents_first(messages: Iterable[Message]) -> list[Message]:
    """In the order of their ids, but a parent always before its children: a clock can have been set back between them.

    In a circle of parents, which only a file made by hand can hold, one of them is taken first.
    """
    waiting = {message.id: message for message in sorted(messages, key=lambda m: m.id)}
    ordered: list[Message] = []
    for message_id in list(waiting):
        line = []
        at: str | None = message_id
        while at is not None and at in waiting:
            line.append(waiting.pop(at))
            at = line[-1].parent_id
        ordered += reversed(line)
    return ordered
