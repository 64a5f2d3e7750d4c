"""Silence: how long each stage may be silent, and what a person sees meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from app.backends.base import Event, Progress
from app.backends.remote.arriving import Arriving
from app.backends.remote.server import ServerSettings
from app.backends.remote.waiting import Waiting
from app.errors import BackendTimeoutError
from tests.backends.remote.virtual_time import run_in_virtual_time

SERVER = ServerSettings("box", "openai", "http://localhost:1", first_token_s=600, idle_s=120)


def arriving(pieces: Sequence[tuple[float, bytes]]) -> Arriving:
    """A body whose pieces come after so many seconds each."""

    async def body() -> AsyncIterator[bytes]:
        for seconds, piece in pieces:
            await asyncio.sleep(seconds)
            yield piece

    response: Any = SimpleNamespace(headers={}, aiter_bytes=body)
    return Arriving(SERVER, response)


def test_a_long_prompt_is_waited_for_and_any_byte_is_a_sign_of_life() -> None:
    async def read() -> bytes:
        return await arriving([(599, b":\n\n"), (599, b":\n\n"), (599, b"data")]).all(100)

    assert run_in_virtual_time(read()) == (b":\n\n:\n\ndata", 3 * 599)


@pytest.mark.parametrize(("begun", "limit_s"), [(False, 600), (True, 120)])
def test_silence_ends_a_reply_sooner_once_it_has_begun(begun: bool, limit_s: float) -> None:
    async def read() -> None:
        body = arriving([(1, b"a"), (10_000, b"b")])
        assert await body.piece() == b"a"
        if begun:
            body.began()
        with pytest.raises(BackendTimeoutError, match=f"box sent nothing for {limit_s} s") as caught:
            await body.piece()
        assert caught.value.exit_code == 4

    assert run_in_virtual_time(read())[1] == 1 + limit_s


def test_elapsed_time_is_told_every_second_until_the_reply_begins() -> None:
    told: list[Event] = []

    async def wait() -> None:
        waiting = Waiting("box", told.append)
        await asyncio.sleep(2.5)
        waiting.paused("busy (503)", 0.5)
        await asyncio.sleep(1)
        waiting.over()
        await asyncio.sleep(10)

    run_in_virtual_time(wait())
    assert [event.stage for event in told if isinstance(event, Progress)] == [
        "waiting for box 1 s",
        "waiting for box 2 s",
        "box: busy (503), trying again",
        "box: busy (503), trying again 3 s",
    ]
