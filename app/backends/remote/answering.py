"""What every backend for a server does around an answer: hands its events out, and lets the connection go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

from app.backends.base import Event
from app.backends.handover import Handover, handed_out
from app.backends.reply_events import Emit
from app.errors import BackendError

_BODY_END_S = 0.05


async def answered_by(work: Callable[[Emit], Awaitable[None]]) -> AsyncGenerator[Event, None]:
    """The events that `work` emits, then what it raises. Closing cancels it, and returns when it has ended."""
    events: Handover[Event | BaseException | None] = Handover()

    async def whole() -> None:
        try:
            await work(events.put)
        except Exception as error:
            events.put(error)
        finally:
            events.put(None)

    working = asyncio.create_task(whole())
    try:
        async for event in handed_out(events):
            yield event
    finally:
        working.cancel()
        await asyncio.wait([working])


class Pieces(Protocol):
    """What is needed of `arriving.Arriving`."""

    limit_s: float

    def began(self) -> None: ...

    async def piece(self) -> bytes: ...


async def let_end(arriving: Pieces) -> None:
    """Take the end of the body if it is there, which lets the connection serve the next question, too."""
    arriving.limit_s = _BODY_END_S
    with contextlib.suppress(BackendError):
        await arriving.piece()
