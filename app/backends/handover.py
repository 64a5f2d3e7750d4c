"""From the engine's thread to the event loop: in order, the first at once, then gathered.

Waking the loop for every token of a fast model would take the processor, and Python's lock, from the very threads that
make the tokens; nobody sees the difference of a fiftieth of a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

from app.backends.base import Event

TAKE_EVERY_S = 0.02

T = TypeVar("T")


class Handover(Generic[T]):
    """Made on the loop that takes. `put` may be called by any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: deque[T] = deque()
        self._arrived = asyncio.Event()
        self._asleep = False  # the taker waits for `_arrived`
        self._next_take = 0.0

    def put(self, item: T) -> None:
        """Hand over `item`."""
        self._items.append(item)
        if self._asleep:
            self._asleep = False
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def take(self) -> list[T]:
        """All that has come since the last call, at least one; returns at most every TAKE_EVERY_S seconds."""
        await asyncio.sleep(self._next_take - self._loop.time())
        self._arrived.clear()
        self._asleep = True  # before the look at the items: what comes after the look sets `_arrived`
        if not self._items:
            await self._arrived.wait()
        self._asleep = False
        self._next_take = self._loop.time() + TAKE_EVERY_S
        return [self._items.popleft() for _ in range(len(self._items))]


async def handed_out(events: Handover[Event | BaseException | None]) -> AsyncGenerator[Event, None]:
    """Each event up to None, which ends it; an exception among them is raised."""
    while True:
        for item in await events.take():
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
