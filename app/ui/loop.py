"""An event loop that says when it works and when it waits, so that an engine in this process can leave it a core."""

from __future__ import annotations

import asyncio
import selectors
import sys
from collections.abc import Callable

Listener = Callable[[bool], None]


class _TellingSelector(selectors.DefaultSelector):
    """A loop waits in its selector and nowhere else."""

    def __init__(self, on_work: Listener) -> None:
        super().__init__()
        self._on_work = on_work

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:  # there is more to do already
            return super().select(timeout)
        self._on_work(False)
        ready = super().select(timeout)
        self._on_work(True)
        return ready


def telling_loop(on_work: Listener) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """A factory of loops that call `on_work(True)` when they begin to work and `on_work(False)` before they wait.

    None, for the loop of the system, on Windows: its loop has no selector.
    """
    if sys.platform == "win32":
        return None
    return lambda: asyncio.SelectorEventLoop(_TellingSelector(on_work))
