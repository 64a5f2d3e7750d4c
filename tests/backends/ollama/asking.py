"""One question to a scripted Ollama, as a chat asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.backends.base import ChatRequest, Event, Notice, Progress
from app.backends.ollama.backend import OllamaBackend, open_ollama
from app.chat.turn import Reply, Turn
from app.errors import QChatError
from app.settings import ServerTable, Settings, load_settings
from tests.backends.fakes import UNSET
from tests.backends.ollama.server import FakeOllama

QUESTION = ChatRequest(messages=[{"role": "user", "content": "why is the sky blue?"}], sampling=UNSET, max_tokens=100)


@dataclass
class Asked:
    """What became of a question: as much of the reply as there is, every event, and the error that ended it."""

    reply: Reply
    events: list[Event]
    error: QChatError | None = None

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]


def settings_for(fake: FakeOllama, model: str = "qwen3:8b", ctx: int = 0, **table: Any) -> Settings:
    server = ServerTable("work", kind="ollama", url=fake.url, **table)
    return replace(load_settings(), backend="work", model=model, ctx=ctx, servers={"work": server})


def opened(fake: FakeOllama, **settings: Any) -> OllamaBackend:
    return open_ollama(settings_for(fake, **settings), lambda _: None)


def ask(fake: FakeOllama, request: ChatRequest = QUESTION, *, settings: Mapping[str, Any] | None = None) -> Asked:
    backend = opened(fake, **(settings or {}))
    events: list[Event] = []
    turn = Turn(backend, request, events.append)

    async def run() -> None:
        try:
            await turn.run()
        finally:
            await backend.close()

    error = None
    try:
        asyncio.run(run())
    except QChatError as caught:
        error = caught
    return Asked(turn.reply, [event for event in events if not isinstance(event, Progress)], error)
