"""A chat as plain lines: a reply while it is written, and what was said before.

Nothing is drawn or coloured, so that a screen reader reads it as it comes. Words of the model and of files have their
control characters escaped wherever they could reach a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from app.backends.base import Answer, Generated, Notice, Progress, Thinking, ToolCall
from app.chat.conversation import Conversation, Message, State
from app.chat.session import Added, Change, Finished
from app.ui.plain import PlainOutput

MOST_SHOWN = 40  # messages of a chat that is opened

_ENDS: Mapping[State, str] = {
    "cancelled": "stopped",
    "interrupted": "interrupted: qchat ended before the reply did",
    "length": "cut off at the token limit",
    "error": "failed",
    "streaming": "still being written in another window",
}


class ReplyView:
    """Shows one reply: the answer on stdout, the rest on stderr. Without `thinking` it only says that the model thinks.

    `output` shows all that it gets, thinking too.
    """

    def __init__(self, output: PlainOutput, thinking: bool) -> None:
        self._output = output
        self._show_thinking = thinking
        self._tokens = 0
        self._thinking_since: float | None = None
        self._thinking_ended = False

    def show(self, change: Change) -> None:
        """Show one change of the chat."""
        match change:
            case Thinking(text):
                self._think(text)
            case Generated(tokens):
                self._tokens = tokens
            case Answer() | ToolCall():
                self._end_thinking()
                self._output.show(change)
            case Notice() | Progress():
                self._output.show(change)
            case Finished():
                self._finish(change)
            case Added():
                pass

    def _think(self, text: str) -> None:
        if self._thinking_since is None:
            if not text.strip():  # an empty block is no thinking
                return
            self._thinking_since = time.monotonic()
            self._output.say("thinking…")
        if self._show_thinking:
            self._output.show(Thinking(text))

    def _end_thinking(self) -> None:
        if self._thinking_since is not None and not self._thinking_ended:
            self._thinking_ended = True
            self._output.say(thought(time.monotonic() - self._thinking_since, self._tokens))

    def _finish(self, finished: Finished) -> None:
        self._end_thinking()
        self._output.finish()
        if error := finished.error:
            self._output.say(f"qchat: {error.message}" + (f"\n  {error.hint}" if error.hint else ""))
        if finished.message.state == "cancelled":
            self._output.say("qchat: stopped; what was said is kept")


def thought(seconds: float, tokens: int) -> str:
    """How long the model thought, as a line."""
    return f"thought for {seconds:.0f} s" + (f", {tokens:,} tokens" if tokens else "")


def transcript(conversation: Conversation, start: str | None = None) -> Iterator[str]:
    """The lines of the path, or of its end from the message `start` on."""
    path = list(conversation.path())
    if start is not None:
        path = path[[message.id for message in path].index(start) :]
    elif len(path) > MOST_SHOWN:
        yield f"[{len(path) - MOST_SHOWN:,} earlier messages are not shown; /export writes them all]"
        path = path[-MOST_SHOWN:]
    for message in path:
        if mark := branch(conversation, message.id):
            yield f"[{mark}]"
        yield from _lines(message)


def branch(conversation: Conversation, message_id: str) -> str:
    """Which of how many branches a message is, as "branch 2/3"; "" where there is one."""
    siblings = conversation.siblings(message_id)
    return f"branch {siblings.index(message_id) + 1}/{len(siblings)}" if len(siblings) > 1 else ""


def _lines(message: Message) -> Iterator[str]:
    if message.role == "user":
        yield from (f"{'  ' if number else '> '}{line}" for number, line in enumerate(message.content.split("\n")))
        return
    if message.thinking.strip():
        seconds, tokens = message.timing.get("thinking_s", 0.0), message.timing.get("thinking_tokens", 0)
        yield f"[{thought(seconds, int(tokens))}]"
    if message.content:
        yield from message.content.split("\n")
    yield from (call.raw for call in message.tool_calls)
    yield from (f"[{note}]" for note in ([_ENDS[message.state]] if message.state in _ENDS else []))
    yield from (f"[{notice}]" for notice in message.notices)
