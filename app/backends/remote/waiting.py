"""How long a server has been silent, told while a person waits: a long prompt may take it minutes."""

from __future__ import annotations

import asyncio
import itertools

from app.backends.base import Progress
from app.backends.reply_events import Emit


class Waiting:
    """Tells every second how long the server has been silent, until it is `over`."""

    def __init__(self, name: str, emit: Emit) -> None:
        self._name = name
        self._emit = emit
        self._why = f"waiting for {name}"
        self._telling = asyncio.create_task(self._tell())

    def paused(self, why: str, _seconds: float) -> None:
        """The request is about to be sent again."""
        self._why = f"{self._name}: {why}, trying again"
        self._emit(Progress(self._why, 0, None))

    def over(self) -> None:
        """The reply has begun, or failed."""
        self._telling.cancel()

    async def _tell(self) -> None:
        for seconds in itertools.count(1):
            await asyncio.sleep(1)
            self._emit(Progress(f"{self._why} {seconds} s", 0, None))
