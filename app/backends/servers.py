"""From a `[servers.NAME]` table to what a backend connects with: its key found, its times filled in."""

from __future__ import annotations

from app.backends.keys import find_key
from app.backends.remote.server import CONNECT_S, FIRST_TOKEN_S, IDLE_S, ServerSettings
from app.errors import SettingsError
from app.settings import SERVERS, ServerTable, Settings


def server_of(settings: Settings, default_url: str = "") -> ServerSettings:
    """The server that `settings.backend` names. `default_url` is for the one that is called like its kind: a table that
    forgot its address must not send a chat to somebody else.

    Raises SettingsError for a server without an address, KeyringError and UsageError for a key that cannot be read.
    """
    table = settings.servers.get(settings.backend) or ServerTable(settings.backend, kind=settings.backend)
    url = table.url or (default_url if table.name == table.kind else "")
    if not url:
        what = f"the server {table.name} has no url" if table.file else f"no server is called {table.name}"
        example = f"[{SERVERS}.{table.name}] with url = ..., in {table.file or 'your config file'}"
        raise SettingsError(what, f"it takes {example}; 'qchat config edit'")
    found = find_key(table)
    return ServerSettings(
        name=table.name,
        kind=table.kind,
        url=url,
        model=settings.model,
        key=found.secret if found else None,
        headers=table.headers,
        body=table.body,
        connect_s=table.connect_timeout or CONNECT_S,
        first_token_s=table.first_token_timeout or FIRST_TOKEN_S,
        idle_s=table.idle_timeout or IDLE_S,
    )
