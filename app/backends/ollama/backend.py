"""An Ollama server, as a backend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from app.backends.base import ChatRequest, Event, Notice, Progress, PromptPiece
from app.backends.ollama.api import DEFAULT_URL, ModelFacts, api_url, describe_model, list_models
from app.backends.ollama.reply import Reply
from app.backends.ollama.request import chat_body, encoded
from app.backends.remote.answering import answered_by, let_end
from app.backends.remote.failure import RefusedError
from app.backends.remote.http import ServerClient
from app.backends.remote.lines import LineSplitter
from app.backends.remote.server import ServerSettings
from app.backends.remote.waiting import Waiting
from app.backends.reply_events import Emit
from app.backends.servers import server_of
from app.errors import BackendError, ContextOverflowError
from app.settings import Settings

_CHAT = "/api/chat"
_NO_THINKING = "this model does not think, so --think changes nothing"
_TOO_LONG = ("context length", "context size", "context window")


def open_ollama(settings: Settings, report: Callable[[Progress | Notice], None]) -> OllamaBackend:
    """A `BackendFactory`: asks the server what it knows of the model, or which one it has.

    Raises ModelNotFoundError, UsageError, BackendError, BackendTimeoutError, and what the server's table can raise.
    """
    server = server_of(settings, DEFAULT_URL)
    report(Progress(f"asking {server.name}", 0, None))
    return OllamaBackend(server, asyncio.run(_ask(server)), settings.ctx)


class OllamaBackend:
    """One server and one model on it."""

    def __init__(self, server: ServerSettings, model: ModelFacts, n_ctx: int = 0) -> None:
        """`n_ctx`: tokens of context to ask for; 0 leaves it to the server. Raises SettingsError."""
        self.name = server.name
        self.model = model.name
        self._server = server
        self._thinks = model.thinks
        self._n_ctx = n_ctx
        self._client = ServerClient(server, api_url(server.url))
        known: dict[str, Any] = {
            "server": self._client.url.shown(),
            "ctx": n_ctx or None,
            "trained for": model.trained_context,
            "weights": model.quantisation,
        }
        self.facts: Mapping[str, Any] = {name: value for name, value in known.items() if value is not None}

    async def models(self) -> Sequence[str]:
        """The models that the server has. Raises BackendError, BackendTimeoutError."""
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
        think = request.thinking
        if think and self._thinks is False:
            emit(Notice(_NO_THINKING))
            think = None
        try:
            await self._ask(request, think, emit)
        except RefusedError as error:
            if not (think and error.failure.status == 400 and "does not support thinking" in error.failure.reason):
                raise
            self._thinks = False  # an old server, which did not say so before
            emit(Notice(_NO_THINKING))
            await self._ask(request, None, emit)

    async def _ask(self, request: ChatRequest, think: bool | None, emit: Emit) -> None:
        body = encoded(chat_body(request, self.model, self._n_ctx, think, self._server.body))
        reply = Reply(self._server, request.stop, emit)
        waiting = Waiting(self._server.name, emit)
        try:
            async with self._client.stream("POST", _CHAT, body, waiting.paused) as arriving:
                lines = LineSplitter()
                while not reply.complete and (piece := await arriving.piece()):
                    for line in lines.push(piece):
                        reply.take(line)
                    if reply.begun:
                        waiting.over()
                        arriving.began()
                reply.end(lines.rest())
                await let_end(arriving)
        except RefusedError as error:
            raise _overflow(error) or error from error
        except BackendError:
            reply.flush()
            raise
        finally:
            waiting.over()
        emit(reply.done())


async def _ask(server: ServerSettings) -> ModelFacts:
    client = ServerClient(server, api_url(server.url))
    try:
        return await describe_model(client, server.model)
    finally:
        await client.close()


def _overflow(error: RefusedError) -> ContextOverflowError | None:
    """What a conversation that is too long is answered with: 400 or 500, and words."""
    if not any(words in error.failure.reason for words in _TOO_LONG):
        return None
    hint = "shorten the message, begin a new chat, or ask for more with --ctx"
    return ContextOverflowError(None, None, hint)
