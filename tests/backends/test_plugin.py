"""A plugin's own errors spoil its reply and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from app.backends.base import Answer, ChatRequest, Done, Event
from app.backends.plugin import Guarded
from app.backends.usage import Usage
from app.chat.turn import Turn
from app.errors import BackendError, UsageError
from tests.backends.fakes import UNSET, FakeBackend

REQUEST = ChatRequest(messages=[{"role": "user", "content": "hi"}], sampling=UNSET, max_tokens=5)


class Unfinished(FakeBackend):
    async def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        yield Answer("half")


class Failing(FakeBackend):
    async def models(self) -> Any:
        raise ZeroDivisionError("list")

    async def prompt(self, request: ChatRequest) -> Any:
        raise ZeroDivisionError("prompt")

    async def close(self) -> None:
        raise ZeroDivisionError("close")


def run(backend: Any) -> Turn:
    return Turn(Guarded(backend, "mine"), REQUEST, lambda _: None)


def test_what_a_good_plugin_says_passes() -> None:
    turn = run(FakeBackend(Answer("yes")))
    assert asyncio.run(turn.run()).answer == "yes"
    assert turn.reply.finish_reason == "stop"


def test_an_error_in_a_reply_is_the_plugin_s_and_what_was_said_stays() -> None:
    turn = run(FakeBackend(Answer("half"), RuntimeError("it \x1b[2J broke")))
    with pytest.raises(BackendError, match=r"the plugin mine failed: RuntimeError: it \\x1b\[2J broke") as caught:
        asyncio.run(turn.run())
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert (turn.reply.answer, turn.reply.finish_reason) == ("half", "error")


def test_an_error_for_a_person_passes_as_it_is() -> None:
    with pytest.raises(UsageError, match="no such model"):
        asyncio.run(run(FakeBackend(UsageError("no such model"))).run())


def test_a_reply_without_an_end_is_a_failure() -> None:
    with pytest.raises(BackendError, match="without saying how it ended"):
        asyncio.run(run(Unfinished()).run())
    done = Done("stop", Usage())
    assert asyncio.run(run(FakeBackend(Answer("x"), done)).run()).answer == "x"


def test_stopping_a_reply_stops_the_plugin() -> None:
    backend = FakeBackend(Answer("first"), endless=True)

    async def stop_after_one() -> None:
        events = Guarded(backend, "mine").chat(REQUEST)
        assert await anext(events) == Answer("first")
        await events.aclose()
        assert backend.closed_chats == 1

    asyncio.run(stop_after_one())


@pytest.mark.parametrize("call", [lambda b: b.models(), lambda b: b.prompt(REQUEST), lambda b: b.close()])
def test_every_other_call_is_guarded_too(call: Any) -> None:
    with pytest.raises(BackendError, match="the plugin mine failed: ZeroDivisionError"):
        asyncio.run(call(Guarded(Failing(), "mine")))
