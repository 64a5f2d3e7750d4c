"""The two questions that are asked of an Ollama server before a chat: which models it has, and what one of them can."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.backends.remote.failure import RefusedError
from app.backends.remote.http import ServerClient
from app.backends.remote.url import ServerUrl, parse_url
from app.errors import BackendError, ModelNotFoundError, UsageError, nearest, printable

DEFAULT_URL = "http://localhost:11434"
_MOST_BYTES = 64 << 20  # of a description: it holds the licence and, for some, the vocabulary
_MOST_LISTED = 12


@dataclass(frozen=True)
class ModelFacts:
    """What a server says of a model. None is not known: old servers do not tell."""

    name: str
    thinks: bool | None = None
    quantisation: str | None = None
    trained_context: int | None = None  # tokens; what the server gives it may be less


def api_url(text: str) -> ServerUrl:
    """The address below which /api is, without a part of the protocol that somebody copied with it."""
    url = parse_url(text)
    path = url.path
    for end in ("/chat", "/tags", "/generate", "/api", "/v1"):
        path = path.removesuffix(end)
    return replace(url, path=path)


async def list_models(client: ServerClient) -> Sequence[str]:
    """The models that the server has fetched. Raises BackendError, BackendTimeoutError."""
    document = _object(client, await client.get("/api/tags"))
    rows = document.get("models")
    names = (
        [row.get("name") or row.get("model") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    )
    return [name for name in names if isinstance(name, str)]


async def describe_model(client: ServerClient, model: str) -> ModelFacts:
    """What the server says of `model`; "" is the only one that it has.

    Raises ModelNotFoundError, UsageError where there are several, BackendError and BackendTimeoutError.
    """
    if not model:
        model = _only(client.server.name, await list_models(client))
    try:
        async with client.stream("POST", "/api/show", json.dumps({"model": model}).encode()) as arriving:
            document = _object(client, await arriving.all(_MOST_BYTES))
    except RefusedError as error:
        if error.failure.status != 404 or not error.failure.fields:
            raise
        raise await _not_found(client, model) from error
    return _facts(model, document)


def _only(server: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    if not names:
        raise ModelNotFoundError(f"{server} has no model yet", "'ollama pull qwen3' on that machine fetches one")
    raise UsageError(f"{server} has {len(names)} models, and none is named", f"-m {server}/MODEL: {_listed(names)}")


async def _not_found(client: ServerClient, model: str) -> ModelNotFoundError:
    names = list(await list_models(client))
    near = nearest(model, names)
    hint = f"did you mean {printable(near)}?" if near else f"it has: {_listed(names) or 'none'}"
    name = printable(model)
    return ModelNotFoundError(
        f"{client.server.name} has no model {name}", f"{hint}; 'ollama pull {name}' on that machine fetches it"
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(map(printable, names[:_MOST_LISTED])) + more


def _facts(model: str, document: dict[str, Any]) -> ModelFacts:
    capabilities, details, info = (document.get(name) for name in ("capabilities", "details", "model_info"))
    info = info if isinstance(info, dict) else {}
    context = info.get(f"{info.get('general.architecture')}.context_length")
    quantisation = details.get("quantization_level") if isinstance(details, dict) else None
    return ModelFacts(
        model,
        "thinking" in capabilities if isinstance(capabilities, list) else None,
        quantisation if isinstance(quantisation, str) and quantisation else None,
        context if isinstance(context, int) else None,
    )


def _object(client: ServerClient, body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        return document
    raise BackendError(
        f"{client.server.name} is no Ollama server: what it answers at {client.url.shown()} is no JSON object",
        'is the url right? An OpenAI-compatible server takes kind = "openai"',
    )
