"""The messages that a backend is asked with: what the path of a conversation becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.chat.conversation import Message


def request_messages(system: str, path: Sequence[Message]) -> list[Mapping[str, Any]]:
    """The messages of a request, in the OpenAI shape.

    A reply in which nothing at all was said is left out, and the questions before and after it become one message,
    because many templates refuse two messages of one role in a row.
    """
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for message in path:
        if message.role == "assistant" and not (message.content or message.thinking or message.tool_calls):
            continue
        if message.role == "user" and messages and messages[-1]["role"] == "user":
            messages[-1]["content"] += f"\n\n{message.content}"
        else:
            messages.append(message.as_request())
    return list(messages)
