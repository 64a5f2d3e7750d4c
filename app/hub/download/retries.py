"""How often and after how long a failed attempt is repeated."""

from __future__ import annotations

import random

from app.hub.download.failures import Failure
from app.hub.download.options import Patience
from app.hub.download.transport import Transport


class Retries:
    """Counts the attempts over `transport` that brought nothing.

    Where no server was ever reached nothing is tried again: whoever asked is there and sees it. What was reached before
    is, with longer and longer waits, as it is likely to come back.
    """

    def __init__(self, patience: Patience, transport: Transport) -> None:
        self._patience = patience
        self._transport = transport
        self._failed = 0

    def progressed(self) -> None:
        """Something worth counting came."""
        self._failed = 0

    def wait_s(self, failure: Failure) -> float:
        """Seconds to wait before the next attempt. Raises the error of `failure` if there is none."""
        self._failed += 1
        if failure.lasting or not self._transport.reached or self._failed >= self._patience.tries:
            raise failure.error from failure
        if failure.wait_s is not None:
            return failure.wait_s
        wait = self._patience.first_wait_s * 2.0 ** (self._failed - 1)
        jitter = random.uniform(1, 1.25)  # so that not all come back at once
        return float(min(self._patience.longest_wait_s, wait) * jitter)
