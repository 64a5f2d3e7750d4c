"""The events of a reply, gathered and drawn ten times a second.

Drawing costs a layout and a repaint however little there is to draw, so a fast model is drawn in fewer, larger pieces
and leaves the processor to itself. Everything that the status line says of a running reply is measured here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from app.backends.base import Answer, Generated, Notice, Progress, Thinking, ToolCall
from app.chat.conversation import Message
from app.chat.session import Added, Change, Finished
from app.ui.speculation import about_speculation
from app.ui.widgets.conversation import ConversationView
from app.ui.widgets.status import StatusLine

DRAW_EVERY_S = 0.1
TELL_SPEED_EVERY_S = 0.5  # a number that changes faster cannot be read


class ReplyFeed:
    """Takes changes as they come; `draw` shows what has gathered. One feed serves one reply."""

    def __init__(
        self, conversation: ConversationView, status: StatusLine, on_added: Callable[[Message], Awaitable[None]]
    ) -> None:
        self._conversation = conversation
        self._status = status
        self._on_added = on_added
        self._waiting: list[Change] = []
        self._reply: Message | None = None  # while it is written, with what has been drawn of it
        self._tokens = 0
        self._first_token_at: float | None = None
        self._thinking_since: float | None = None
        self._speed_told_at = 0.0
        self._drawing = asyncio.Lock()  # one picture at a time, in order

    def take(self, change: Change) -> None:
        """The next change. Neighbouring pieces of text become one."""
        now = time.monotonic()
        match change:
            case Generated(tokens):
                self._first_token_at = self._first_token_at or now
                self._tokens = tokens
                return
            case Thinking(text):
                self._thinking_since = self._thinking_since or now
                if self._waiting and isinstance(last := self._waiting[-1], Thinking):
                    self._waiting[-1] = Thinking(last.text + text)
                    return
            case Answer(text):
                if self._waiting and isinstance(last := self._waiting[-1], Answer):
                    self._waiting[-1] = Answer(last.text + text)
                    return
            case Progress():
                self._waiting = [each for each in self._waiting if not isinstance(each, Progress)]
        self._waiting.append(change)

    async def draw(self) -> None:
        """Show what has gathered since the last time."""
        async with self._drawing:
            waiting, self._waiting = self._waiting, []
            for change in waiting:
                await self._show(change)
            if self._reply:
                self._conversation.remember(self._reply)  # a view that is mounted later shows all of it
            if waiting and self._reply and self._first_token_at is not None:
                self._tell_speed(self._first_token_at)

    async def _show(self, change: Change) -> None:
        reply = self._reply
        view = self._conversation.view(reply.id) if reply else None
        match change:
            case Added(message):
                await self._conversation.add(message)
                await self._on_added(message)
                if message.role == "assistant":
                    self._reply = message
            case Finished(message):
                await self._conversation.replace(message)
                self._tell_end(message)
            case Progress(stage, done, total):
                amount = f" {100 * done // total} %" if total else ""
                self._status.change(activity=f"{stage}{amount}")
                if view:
                    view.tell_activity(f"{stage}{amount}")
            case Thinking(text) if reply:
                self._status.change(activity="thinking")
                self._reply = replace(reply, thinking=reply.thinking + text)
                if view:
                    view.add_thinking(text, self._tokens)
            case Answer(text) if reply:
                self._stop_thinking()
                self._status.change(activity="writing")
                self._reply = replace(reply, content=reply.content + text)
                if view:
                    view.add_answer(text)
            case ToolCall() if reply:
                self._stop_thinking()
                self._reply = replace(reply, tool_calls=(*reply.tool_calls, change))
                if view:
                    view.add_tool_call(change)
            case Notice(text) if view:
                view.tell_activity(text)  # at the end it is part of the message, if it is about the reply
            case _:
                pass

    def _stop_thinking(self) -> None:
        if self._thinking_since is None:
            return
        if self._reply and (view := self._conversation.view(self._reply.id)):
            view.end_thinking(time.monotonic() - self._thinking_since, self._tokens)
        self._thinking_since = None

    def _tell_speed(self, since: float) -> None:
        now = time.monotonic()
        if self._tokens > 1 and now - since > TELL_SPEED_EVERY_S and now - self._speed_told_at > TELL_SPEED_EVERY_S:
            self._status.change(speed=(self._tokens - 1) / (now - since))
            self._speed_told_at = now

    def _tell_end(self, message: Message) -> None:
        """What the engine itself measured, in place of what was seen from here."""
        timing = message.timing
        steps, seconds = timing.get("generated_tokens", 0) - 1, timing.get("decode_s", 0.0)
        self._reply = None
        speed = steps / seconds if steps > 0 and seconds > 0 else None
        self._status.change(speed=speed, speculation=about_speculation(timing))


def context_used(message: Message) -> int | None:
    """Tokens of the context that are taken after this reply; None where the backend does not say."""
    timing = message.timing
    used = int(timing.get("prompt_tokens", 0) + timing.get("generated_tokens", 0))
    return used or None
