"""A server that speaks the OpenAI chat protocol, as a backend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from app.backends.base import ChatRequest, Event, Notice, Progress, PromptPiece
from app.backends.openai.address import DEFAULT_URL, protocol_url
from app.backends.openai.model_list import list_models, only_model
from app.backends.openai.reply import Reply
from app.backends.openai.request import (
    Adapted,
    encoded,
    is_overflow,
    request_body,
    without_limit,
    without_refused,
)
from app.backends.openai.stream import read_stream
from app.backends.remote.answering import answered_by
from app.backends.remote.arriving import Arriving
from app.backends.remote.failure import Failure, RefusedError, hide_echo
from app.backends.remote.http import ServerClient
from app.backends.remote.server import ServerSettings
from app.backends.remote.waiting import Waiting
from app.backends.reply_events import Emit
from app.backends.servers import server_of
from app.errors import BackendError
from app.settings import Settings

_CHAT = "/chat/completions"


class OpenAIBackend:
    """One server and one model on it. Nothing is asked of the server before the first question."""

    def __init__(self, server: ServerSettings) -> None:
        """`server.model` must be set. Raises SettingsError for an address or header that cannot be used."""
        self.name = server.name
        self.model = server.model
        self._server = server
        self._client = ServerClient(server, protocol_url(server.url))
        self.facts: Mapping[str, Any] = {"server": self._client.url.shown()}
        self._refused: list[Failure] = []  # of fields that this server does not take

    async def models(self) -> Sequence[str]:
        """The models that the server offers. Raises BackendError, BackendTimeoutError."""
        return await list_models(self._client)

    def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """See `Backend.chat`. Closing ends the connection at once, by which the server knows to stop."""
        return answered_by(lambda emit: self._answer(request, emit))

    async def prompt(self, request: ChatRequest) -> Sequence[PromptPiece]:
        """Empty: the server makes the prompt, and does not show it."""
        return ()

    async def close(self) -> None:
        """End the connections."""
        await self._client.close()

    async def _answer(self, request: ChatRequest, emit: Emit) -> None:
        """One reply: every event of it, Done last."""
        reply = Reply(self._server, request.stop, emit)
        waiting = Waiting(self._server.name, emit)
        try:
            async with self._stream(request, waiting, emit) as arriving:
                await read_stream(arriving, reply, waiting.over)
        except BackendError as error:
            reply.flush()
            hide_echo(error, (text for message in request.messages if isinstance(text := message.get("content"), str)))
            raise
        finally:
            waiting.over()
        emit(reply.done())

    @asynccontextmanager
    async def _stream(self, request: ChatRequest, waiting: Waiting, emit: Emit) -> AsyncIterator[Arriving]:
        """The response to the request, or to one without the fields that the server refuses."""
        extra = self._server.body
        body = request_body(request, self.model, extra)
        for failure in self._refused:
            if adapted := without_refused(body, failure, extra):
                body = _told(adapted, emit)
        while True:
            try:
                async with self._client.stream("POST", _CHAT, encoded(body), waiting.paused) as arriving:
                    yield arriving
                return
            except RefusedError as error:
                failure = error.failure
                if is_overflow(failure):
                    body = _told(without_limit(body, failure, extra), emit)
                elif adapted := without_refused(body, failure, extra):
                    body = _told(adapted, emit)
                    self._refused.append(failure)
                else:
                    raise


def _told(adapted: Adapted, emit: Emit) -> dict[str, Any]:
    body, notice = adapted
    if notice:
        emit(Notice(notice))
    return body


def open_openai(settings: Settings, _report: Callable[[Progress | Notice], None]) -> OpenAIBackend:
    """A `BackendFactory`: the server that the settings name, which is asked for its model if they name none.

    Raises SettingsError and UsageError for what the person has set, or where the server offers several models;
    BackendError, BackendTimeoutError.
    """
    server = server_of(settings, DEFAULT_URL)
    return OpenAIBackend(server if server.model else replace(server, model=asyncio.run(only_model(server))))
