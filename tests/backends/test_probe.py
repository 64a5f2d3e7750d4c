"""A look at a server: how long it may take, and what is made of a backend that ends without a word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from app.backends.base import Answer, ChatRequest, Done, Event, Usage
from app.backends.probe import Look, look_at_server
from app.backends.remote.server import ServerSettings
from app.settings import ServerTable, Settings, load_settings
from tests.backends.remote.virtual_time import run_in_virtual_time
from tests.home import qchat_home

__all__ = ["qchat_home"]

pytestmark = pytest.mark.usefixtures("qchat_home")


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr("app.backends.probe.find_key", lambda _table: None)
    return replace(load_settings(), servers={"work": ServerTable("work", kind="ollama", url="http://127.0.0.1:9")})


def test_no_part_of_a_look_takes_longer_than_it_may(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ServerSettings] = []

    async def never(server: ServerSettings) -> Sequence[str]:
        asked.append(server)
        await asyncio.sleep(3600)  # the server lets a byte come now and then
        return ["a"]

    monkeypatch.setattr("app.backends.probe.models_at", never)
    look, seconds = run_in_virtual_time(look_at_server(settings, "work", 3, try_it=False))
    assert (seconds, look.state, look.problem) == (3, "unreachable", "work did not answer within 3 s")
    assert (asked[0].connect_s, asked[0].first_token_s) == (3, 3)


class Scripted:
    """A backend that says these events and no more."""

    def __init__(self, *events: Event) -> None:
        self.events = events
        self.closed = False
        self.model = ""

    async def models(self) -> Sequence[str]:
        return ["a"]

    async def chat(self, _request: ChatRequest) -> AsyncIterator[Event]:
        for event in self.events:
            yield event

    async def close(self) -> None:
        self.closed = True


def checked(backend: Scripted, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Look:
    async def models(_server: ServerSettings) -> Sequence[str]:
        return await backend.models()

    def opened(settings: Settings, _notify: object) -> Scripted:
        backend.model = settings.model
        return backend

    monkeypatch.setattr("app.backends.probe.models_at", models)
    monkeypatch.setattr("app.backends.probe.open_backend", opened)
    return asyncio.run(look_at_server(settings, "work", 3, try_it=True))


@pytest.mark.parametrize(
    ("events", "streams"),
    [
        ([Answer("x"), Done("length", Usage())], True),
        ([Answer("x")], False),  # a reply has an end
        ([Done("stop", Usage())], False),
        ([], False),
    ],
)
def test_a_backend_streams_if_it_sends_a_token_and_an_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, events: list[Event], streams: bool
) -> None:
    backend = Scripted(*events)
    look = checked(backend, settings, monkeypatch)
    assert (look.streams, look.usable) == (streams, streams)
    assert (backend.model, backend.closed) == ("a", True)
