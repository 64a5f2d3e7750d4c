"""A run that must be over by a certain time: what no longer fits is left out by name, and what hangs is ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class TimeLimit:
    """`soft_s` after which nothing new is begun, `hard_s` after which `expired(what was being done)` is called, from
    another thread: a kernel that never ends cannot be told to."""

    def __init__(self, soft_s: float, hard_s: float, expired: Callable[[str], object]) -> None:
        self._started, self._soft_s, self._expired = time.perf_counter(), soft_s, expired
        self.doing = "nothing yet"
        self.left_out: dict[str, str] = {}  # what, and why
        self._timer = threading.Timer(hard_s, lambda: expired(self.doing))
        self._timer.daemon = True
        self._timer.start()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.perf_counter() - self._started

    def allows(self, what: str) -> bool:
        """Whether there is time to begin with `what`; it is listed as left out if not."""
        if self.seconds > self._soft_s:
            self.left_out[what] = f"{self._soft_s:.0f} s were over"
            return False
        self.doing = what
        return True

    def end(self) -> None:
        """All is done in time."""
        self._timer.cancel()
