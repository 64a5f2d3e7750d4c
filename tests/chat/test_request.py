"""What a conversation becomes for a backend."""

from __future__ import annotations

from app.backends.base import ToolCall
from app.chat.conversation import new_message
from app.chat.request import request_messages

CALL = ToolCall("f", {"a": 1}, "<tool_call>...</tool_call>")


def test_what_was_said_goes_along_and_an_empty_reply_does_not() -> None:
    first = new_message(None, "user", "a")
    silent = new_message(first.id, "assistant", "", state="cancelled")
    second = new_message(silent.id, "user", "b")
    reply = new_message(second.id, "assistant", "c", thinking="t", tool_calls=(CALL,))
    assert request_messages("be kind", [first, silent, second, reply]) == [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "a\n\nb"},
        {
            "role": "assistant",
            "content": "c",
            "reasoning_content": "t",
            "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}],
        },
    ]
