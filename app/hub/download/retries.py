"""How often and after how long a failed attempt is repeated."""

from __future__ import annotations

import random

from app.hub.download.failures import Failure
from app.hub.download.options import Patience


class Retries:
    """Counts the attempts that brought nothing.

    A server that was never reached is not tried again: whoever asked is there and sees it. One that was reached before
    is, with longer and longer waits, as it is likely to come back.
    """

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failed = 0
        self.reached = False

    def progressed(self) -> None:
        """Something worth counting came."""
        self._failed = 0

    def wait_s(self, failure: Failure) -> float:
        """Seconds to wait before the next attempt. Raises the error of `failure` if there is none."""
        self._failed += 1
        if failure.lasting or not self.reached or self._failed >= self._patience.tries:
            raise failure.error from failure
        if failure.wait_s is not None:
            return failure.wait_s
        wait = self._patience.first_wait_s * 2.0 ** (self._failed - 1)
        jitter = random.uniform(1, 1.25)  # so that not all come back at once
        return float(min(self._patience.longest_wait_s, wait) * jitter)
