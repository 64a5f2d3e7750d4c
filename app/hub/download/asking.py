"""A question to a server, asked until it is answered: as often, and after such waits, as `Retries` has it.

Whatever may hang runs in a thread of its own: whoever waits is told ten times a second how far it is, and can leave.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from app.errors import DownloadTimeoutError
from app.hub.download.failures import Failure
from app.hub.download.options import Options
from app.hub.download.retries import Retries
from app.hub.download.session import next_try
from app.hub.transfer import POLL_S

_Result = TypeVar("_Result")


class Asking:
    """For the server `host`. `tell` is called with (stage, note); what it raises ends the waiting."""

    def __init__(self, host: str, retries: Retries, options: Options, tell: Callable[[str, str], None]) -> None:
        self._host = host
        self._retries = retries
        self._patience = options.patience
        self._clock = options.clock
        self._tell = tell

    def until_answered(self, ask: Callable[[], _Result]) -> _Result:
        """What `ask` gives, after as many Failures as are borne. Raises DownloadError, and what `tell` raises."""
        while True:
            try:
                return self._aside(ask)
            except Failure as failure:
                self._wait(self._retries.wait_s(failure), failure)

    def _aside(self, ask: Callable[[], _Result]) -> _Result:
        """What `ask` gives, done in another thread, while the watcher is told."""
        came: queue.SimpleQueue[_Result | BaseException] = queue.SimpleQueue()

        def do() -> None:
            try:
                came.put(ask())
            except BaseException as error:  # raised where it is wanted
                came.put(error)

        threading.Thread(target=do, name="qchat-ask", daemon=True).start()
        begun = self._clock.now()
        while True:
            self._tell("connecting", "")
            try:
                result = came.get(timeout=POLL_S)
            except queue.Empty:
                if self._clock.now() - begun > self._patience.stall_s:
                    raise Failure(self._silent()) from None
                continue
            if isinstance(result, BaseException):
                raise result
            return result

    def _silent(self) -> DownloadTimeoutError:
        return DownloadTimeoutError(
            f"{self._host} did not answer within {self._patience.stall_s:.0f} seconds",
            "check the network, or try again later",
        )

    def _wait(self, seconds: float, failure: Failure) -> None:
        until = self._clock.now() + seconds
        while (left := until - self._clock.now()) > 0:
            self._tell("retrying", next_try(failure, left))
            self._clock.sleep(min(POLL_S, left))
