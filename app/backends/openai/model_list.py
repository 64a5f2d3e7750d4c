"""The models that a server offers."""

from __future__ import annotations

import json

from app.backends.openai.address import protocol_url
from app.backends.remote.failure import said, words_of
from app.backends.remote.http import ServerClient
from app.backends.remote.server import ServerSettings
from app.errors import BackendError, UsageError, printable
from app.unicode import well_formed

_MODELS = "/models"
_MOST_LISTED = 12


async def list_models(client: ServerClient) -> list[str]:
    """The names of the models that a server offers, in its order. Raises BackendError, BackendTimeoutError."""
    text = (await client.get(_MODELS)).decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        document = document.get("data") or document.get("models") or ([] if "data" in document else None)
    if not isinstance(document, list):
        words = said(client.server, words_of(text)) or "nothing"
        raise BackendError(
            f"{client.url.shown(_MODELS)} sent no list of models but {words}", "is the server's url right?"
        )
    names = [entry.get("id") or entry.get("name") if isinstance(entry, dict) else entry for entry in document]
    return [well_formed(name) for name in names if isinstance(name, str) and name]


async def only_model(server: ServerSettings) -> str:
    """The one model of a server. Raises UsageError with their names if there are several; BackendError."""
    client = ServerClient(server, protocol_url(server.url))
    try:
        names = await list_models(client)
    finally:
        await client.close()
    if len(names) == 1:
        return names[0]
    if not names:
        raise BackendError(f"{server.name} offers no model", "name one with -m, or load one there")
    listed = ", ".join(printable(name) for name in names[:_MOST_LISTED])
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    raise UsageError(f"{server.name} offers {len(names)} models: name one with -m", f"{listed}{more}")
