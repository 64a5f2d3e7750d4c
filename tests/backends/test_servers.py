"""What of a server's table reaches the backend that connects to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.backends.remote.server import CONNECT_S, FIRST_TOKEN_S, IDLE_S, ServerSettings
from app.backends.servers import server_of
from app.errors import SettingsError
from app.settings import Secret, ServerTable, Settings, load_settings
from tests.home import qchat_home

__all__ = ["qchat_home"]


def naming(backend: str, *tables: ServerTable, model: str = "") -> Settings:
    return replace(load_settings(), backend=backend, model=model, servers={table.name: table for table in tables})


def test_a_table_is_handed_over_whole(qchat_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_KEY", "sk-1")
    table = ServerTable(
        "work",
        kind="ollama",
        url="h:1",
        model="unused: the settings have the one that was chosen",
        key_env="TEAM_KEY",
        connect_timeout=1.0,
        first_token_timeout=2.0,
        idle_timeout=3.0,
        headers={"X-Team": Secret("blue")},
        body={"keep_alive": 5},
    )
    assert server_of(naming("work", table, model="qwen3")) == ServerSettings(
        name="work",
        kind="ollama",
        url="h:1",
        model="qwen3",
        key=Secret("sk-1"),
        headers={"X-Team": Secret("blue")},
        body={"keep_alive": 5},
        connect_s=1.0,
        first_token_s=2.0,
        idle_s=3.0,
    )


def test_what_a_table_leaves_out_is_the_backend_s() -> None:
    server = server_of(naming("work", ServerTable("work", url="h:1")))
    assert (server.key, server.connect_s, server.first_token_s, server.idle_s) == (
        None,
        CONNECT_S,
        FIRST_TOKEN_S,
        IDLE_S,
    )


def test_a_backend_may_have_an_address_of_its_own() -> None:
    server = server_of(naming("ollama"), "http://localhost:11434")
    assert (server.name, server.kind, server.url) == ("ollama", "ollama", "http://localhost:11434")
    unplaced = ServerTable("ollama", kind="ollama", model="x")
    assert server_of(naming("ollama", unplaced), "http://localhost:11434").url == "http://localhost:11434"
    table = ServerTable("ollama", kind="ollama", url="http://far:11434")
    assert server_of(naming("ollama", table), "http://localhost:11434").url == "http://far:11434"


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([], "no server is called work"),
        ([ServerTable("work", file="/x/config.toml")], "the server work has no url"),
    ],
)
def test_a_server_without_an_address_is_refused(tables: list[ServerTable], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        server_of(naming("work", *tables), "https://default.example" if tables else "")
    assert "[servers.work] with url" in str(caught.value.hint)
