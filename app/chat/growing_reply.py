"""A reply while it is written: the message that it is so far, the times that a person sees, and when it is saved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, replace

from app.backends.base import Answer, Backend, ChatRequest, Event, Generated, Thinking, ToolCall
from app.chat.conversation import Message, State
from app.chat.turn import Reply, Turn

SAVE_EVERY_S = 0.5
SAY_ALIVE_EVERY_S = 3.0  # a reply that was not saved for longer counts as interrupted; a long prompt says nothing


class GrowingReply:
    """Begins as `message`; every event goes on to `show`."""

    def __init__(self, message: Message, show: Callable[[Event], object]) -> None:
        self._begun = message
        self._state: State = message.state
        self._notices: tuple[str, ...] = ()
        self._show = show
        self._turn: Turn | None = None
        self._tokens = 0
        self._thinking_since: float | None = None
        self._timing: dict[str, float] = {}

    @property
    def message(self) -> Message:
        """The reply as a message, as far as it has come."""
        reply = self._turn.reply if self._turn else Reply()
        return replace(
            self._begun,
            content=reply.answer,
            thinking=reply.thinking,
            tool_calls=reply.tool_calls,
            notices=(*reply.notices, *self._notices),
            state=self._state,
            timing=dict(self._timing),
        )

    async def run(self, backend: Backend, request: ChatRequest, model: str) -> None:
        """Have `backend` answer as `model`. What that raises is raised, and how the reply ended is then for `end`."""
        self._turn = Turn(backend, request, self._take)
        self._begun = replace(self._begun, model=model)
        reply = await self._turn.run()
        if reply.usage:
            self._timing |= {name: value for name, value in asdict(reply.usage).items() if value is not None}
        self.end(reply.finish_reason or "error")

    def end(self, state: State, *notices: str) -> None:
        """How it ended, and what there is to say of that."""
        self._stop_thinking()
        self._state, self._notices = state, notices

    async def save_as_it_grows(self, put: Callable[[Message], None]) -> None:
        """Until it is cancelled, `put` the message at times: when it has grown, and to say that it is still written."""
        saved, saved_at = self.message, time.monotonic()
        while True:
            await asyncio.sleep(SAVE_EVERY_S)
            now = time.monotonic()
            if self.message != saved or now - saved_at >= SAY_ALIVE_EVERY_S:
                saved, saved_at = self.message, now
                put(saved)

    def _take(self, event: Event) -> None:
        match event:
            case Generated(tokens):
                self._tokens = tokens
            case Thinking() if self._thinking_since is None:
                self._thinking_since = time.monotonic()
            case Answer() | ToolCall():
                self._stop_thinking()
        self._show(event)

    def _stop_thinking(self) -> None:
        if self._thinking_since is not None and "thinking_s" not in self._timing:
            self._timing["thinking_s"] = time.monotonic() - self._thinking_since
            self._timing["thinking_tokens"] = self._tokens
