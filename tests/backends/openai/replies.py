"""Replies read out of scripted bytes: without a network, or from a server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.backends.base import Answer, ChatRequest, Done, Event, Notice, Thinking, ToolCall
from app.backends.openai.backend import OpenAIBackend
from app.backends.openai.reply import Reply
from app.backends.openai.stream import read_stream
from app.backends.remote.server import ServerSettings
from app.errors import BackendError, QChatError
from tests.backends.fakes import UNSET
from tests.backends.remote.scripted_server import events

SERVER = ServerSettings("box", "openai", "http://localhost:1", model="m")
REQUEST = ChatRequest([{"role": "user", "content": "hi"}], UNSET, 100)


@dataclass
class Heard:
    """All that came of one reply."""

    events: list[Event] = field(default_factory=list)
    error: QChatError | None = None

    def text(self, kind: type[Thinking] | type[Answer] | type[Notice]) -> str:
        return "".join(event.text for event in self.events if isinstance(event, kind))

    @property
    def thinking(self) -> str:
        return self.text(Thinking)

    @property
    def answer(self) -> str:
        return self.text(Answer)

    @property
    def notices(self) -> str:
        return self.text(Notice)

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return [(event.name, event.arguments) for event in self.events if isinstance(event, ToolCall)]

    @property
    def done(self) -> Done | None:
        last = self.events[-1] if self.events else None
        return last if isinstance(last, Done) else None


class _Pieces:
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.limit_s = 0.0
        self._pieces = iter(pieces)

    def began(self) -> None:
        """Silence has no limit here."""

    async def piece(self) -> bytes:
        return next(self._pieces, b"")


def read(*pieces: bytes, stops: Sequence[str] = ()) -> Heard:
    """What becomes of a stream that arrives in these pieces."""
    heard = Heard()
    reply = Reply(SERVER, stops, heard.events.append, clock=iter(range(1000)).__next__)
    try:
        _run_through(read_stream(_Pieces(filter(None, pieces)), reply, lambda: None))
        heard.events.append(reply.done())
    except BackendError as error:
        reply.flush()
        heard.error = error
    return heard


def _run_through(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run what never waits, without an event loop, which would take most of the time."""
    with contextlib.suppress(StopIteration):
        coroutine.send(None)


def read_documents(*documents: Any, done: bool = True) -> Heard:
    """The same of these events."""
    return read(events(documents, done))


async def hear(backend: OpenAIBackend, request: ChatRequest = REQUEST) -> Heard:
    """What a backend says to a request."""
    heard = Heard()
    try:
        async for event in backend.chat(request):
            heard.events.append(event)
    except QChatError as error:
        heard.error = error
    return heard


def ask(server: ServerSettings, request: ChatRequest = REQUEST) -> Heard:
    """One question to a server."""

    async def asking() -> Heard:
        backend = OpenAIBackend(server)
        try:
            return await hear(backend, request)
        finally:
            await backend.close()

    return asyncio.run(asking())
