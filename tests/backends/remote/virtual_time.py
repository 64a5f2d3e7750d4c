"""An event loop whose clock runs ahead whenever everybody waits, so that limits of minutes are tested in no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("everybody waits for ever")
        if not ready and timeout:
            self.skipped_s += timeout
        return ready


def run_in_virtual_time(coroutine: Coroutine[Any, Any, Any]) -> tuple[Any, float]:
    """What it returns, and how many seconds it would have taken. Nothing in it may use the network or threads."""
    selector = _Selector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.skipped_s  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(coroutine), selector.skipped_s
    finally:
        loop.close()
