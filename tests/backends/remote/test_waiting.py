"""Silence: how long each stage may be silent, and what a person sees meanwhile."""

from __future__ import annotations

import asyncio
import itertools
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

    response: Any = SimpleNamespace(aiter_bytes=body)
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


def heard_from(every_s: float, seconds: float, *, begun: bool = True) -> list[tuple[float, int]]:
    """(when it was handed out, how many tokens) of each piece; the server sends a token, of one byte, so often."""

    async def network() -> AsyncIterator[bytes]:
        """As httpx reads a socket: all that has come, or the next that comes."""
        loop, taken = asyncio.get_running_loop(), 0
        while (due_s := (taken + 1) * every_s) <= seconds:
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            there = int(min(loop.time(), seconds) / every_s + 0.001)
            yield b"t" * (there - taken)
            taken = there

    async def read() -> list[tuple[float, int]]:
        body = Arriving(SERVER, SimpleNamespace(aiter_bytes=network))  # type: ignore[arg-type]
        heard = []
        while piece := await body.piece():
            heard.append((asyncio.get_running_loop().time(), len(piece)))
            if begun:
                body.began()
        return heard

    return list(run_in_virtual_time(read())[0])


def test_a_fast_server_wakes_nobody_for_each_token_and_loses_none() -> None:
    heard = heard_from(0.001, 2.0)
    assert sum(tokens for _, tokens in heard) == 2000
    gaps_s = [after - before for (before, _), (after, _) in itertools.pairwise(heard)]
    assert all(0.0199 < gap_s < 0.03 for gap_s in gaps_s[1:-1])  # a person sees no steps
    assert len(heard_from(0.001, 2.0, begun=False)) == 2000  # the first token is never waited for


def test_the_tokens_of_a_slow_server_are_handed_out_as_they_come() -> None:
    assert heard_from(0.03, 3.0) == [(pytest.approx(0.03 * (i + 1)), 1) for i in range(100)]


def test_pieces_that_are_there_already_are_not_waited_for() -> None:
    async def without_a_pause() -> AsyncIterator[bytes]:
        for _ in range(300):
            yield b"b"

    async def read() -> int:
        body, count = Arriving(SERVER, SimpleNamespace(aiter_bytes=without_a_pause)), 0  # type: ignore[arg-type]
        body.began()
        while await body.piece():
            count += 1
        return count

    assert run_in_virtual_time(read()) == (300, 0.0)


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
