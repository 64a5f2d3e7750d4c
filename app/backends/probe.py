"""Whether a backend or server can be used now: is it there, how far away, which models has it, does it stream.

Nothing here loads a model of this machine, and no server is asked for an answer unless somebody wants that tried.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from app.backends.base import Answer, Backend, ChatRequest, Done, Thinking, ToolCall
from app.backends.keys import find_key
from app.backends.registry import installed, load, open_backend
from app.backends.remote.failure import RefusedError
from app.backends.remote.http import ServerClient
from app.backends.remote.server import ServerSettings
from app.backends.remote.url import ServerUrl
from app.backends.servers import server_of
from app.errors import BackendError, BackendTimeoutError, QChatError, printable
from app.settings import LOCAL, SamplingSettings, Settings

REMOTE_KINDS = ("openai", "ollama")  # those that list models without opening one

State = Literal["ready", "installed", "reachable", "refused", "unreachable", "broken"]
_ONE_TOKEN = ChatRequest(
    messages=[{"role": "user", "content": "Say hi."}], sampling=SamplingSettings(*[None] * 8), max_tokens=1
)


@dataclass(frozen=True)
class Look:
    """What was seen. None is what was not looked at, or could not be seen."""

    name: str
    kind: str  # the backend that speaks to it
    at: str  # an address, or where a backend comes from
    state: State
    key: str | None = None  # where its key is kept
    latency_s: float | None = None  # of the list of models, connecting included
    models: Sequence[str] | None = None
    streams: bool | None = None
    first_token_s: float | None = None
    problem: str = ""
    hint: str = ""

    @property
    def usable(self) -> bool:
        """Whether a chat with it could begin."""
        return self.state in ("ready", "installed", "reachable") and self.streams is not False


async def models_at(server: ServerSettings) -> Sequence[str]:
    """The models of a server of one of the REMOTE_KINDS. Raises BackendError, BackendTimeoutError, SettingsError."""
    url, list_models = _protocol(server.kind)
    client = ServerClient(server, url(server.url))
    try:
        return await list_models(client)
    finally:
        await client.close()


async def look_at_server(settings: Settings, name: str, within_s: float, *, try_it: bool) -> Look:
    """A look at the server `name`. `try_it`: ask it for one token as well, which may load a model there."""
    settings = replace(settings, backend=name, model=_model_of(settings, name))
    table = settings.servers.get(name)
    look = Look(name, table.kind if table else name, table.shown_url if table else "", "unreachable")
    if (entry := installed(look.kind)) is not None:
        try:
            load(entry)
        except BackendError as error:
            return _with_problem(replace(look, state="broken"), error)
    try:
        key = find_key(table) if table else None
        look = replace(look, key=key.origin if key else None)
        began = time.monotonic()
        async with asyncio.timeout(within_s):
            models = await _models(settings, look.kind, within_s)
        look = replace(look, state="reachable", latency_s=time.monotonic() - began, models=tuple(models))
        return await _try(look, settings) if try_it else look
    except TimeoutError:
        return _with_problem(look, BackendTimeoutError(f"{printable(name)} did not answer within {within_s:g} s"))
    except RefusedError as error:
        return _with_problem(replace(look, state="refused"), error)
    except BackendError as error:
        return _with_problem(look, error)
    except QChatError as error:  # of the settings, a key or a plugin
        return _with_problem(replace(look, state="broken"), error)


def look_at_backend(name: str, models_here: Sequence[str]) -> Look:
    """A look at an installed backend, without opening it; `models_here` are on this disk."""
    entry = installed(name)
    assert entry is not None
    at = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
    look = Look(name, name, printable(at), "installed")
    try:
        load(entry)
    except BackendError as error:
        return _with_problem(replace(look, state="broken"), error)
    return replace(look, state="ready", at="this process", models=models_here) if name == LOCAL else look


async def _models(settings: Settings, kind: str, within_s: float) -> Sequence[str]:
    if kind in REMOTE_KINDS:
        server = server_of(settings, _default_url(kind))
        return await models_at(replace(server, connect_s=within_s, first_token_s=within_s))
    backend = await asyncio.to_thread(open_backend, settings, lambda _: None)
    try:
        return await backend.models()
    finally:
        await backend.close()


async def _try(look: Look, settings: Settings) -> Look:
    """Ask for one token, of the server's own model or the only one."""
    names = look.models or ()
    model = settings.model or (names[0] if len(names) == 1 else "")
    if not model:
        return replace(look, problem="no model was tried: it has several", hint="model = … in its table names one")
    try:
        backend = await asyncio.to_thread(open_backend, replace(settings, model=model), lambda _: None)
        try:
            return await _first_token(look, backend)
        finally:
            await backend.close()
    except QChatError as error:
        return _with_problem(replace(look, streams=False), error)


async def _first_token(look: Look, backend: Backend) -> Look:
    began, first_s, ended = time.monotonic(), None, False
    async with aclosing(backend.chat(_ONE_TOKEN)) as events:
        async for event in events:
            if isinstance(event, (Answer, Thinking, ToolCall)) and first_s is None:
                first_s = time.monotonic() - began
            ended = ended or isinstance(event, Done)
    if first_s is None or not ended:
        return replace(look, streams=False, problem="it sent no token")
    return replace(look, streams=True, first_token_s=first_s)


def _model_of(settings: Settings, name: str) -> str:
    table = settings.servers.get(name)
    return settings.model if settings.backend == name else table.model if table else ""


def _default_url(kind: str) -> str:
    from app.backends.ollama.api import DEFAULT_URL as OLLAMA  # noqa: PLC0415
    from app.backends.openai.address import DEFAULT_URL as OPENAI  # noqa: PLC0415

    return OLLAMA if kind == "ollama" else OPENAI


def _protocol(kind: str) -> tuple[Callable[[str], ServerUrl], Callable[[ServerClient], Awaitable[Sequence[str]]]]:
    """How the address of a server is made whole, and how its models are asked for."""
    from app.backends.ollama import api  # noqa: PLC0415
    from app.backends.openai import address, model_list  # noqa: PLC0415

    if kind == "ollama":
        return api.api_url, api.list_models
    return address.protocol_url, model_list.list_models


def _with_problem(look: Look, error: QChatError) -> Look:
    return replace(look, problem=error.message, hint=error.hint or "")
