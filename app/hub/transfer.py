"""What is said while a model is fetched, and how whoever watches steers it. Light: nothing of the network is imported.

The core of a download knows one `Steering`: it tells it each step and asks it whether to go on.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

POLL_S = 0.1  # within which whoever fetches looks up, to report and to be told to stop
WINDOW_S = 5.0  # over which the speed is taken

OnProgress = Callable[[str, int, int | None], None]
"""Called with (stage, bytes done, bytes in all or None where that is not known), every POLL_S seconds or more often.

Whatever it raises, such as `Cancelled`, ends what is under way.
"""

Notify = Callable[[str], None]
"""Called with a sentence that a person should read."""


class Cancelled(Exception):  # noqa: N818 - what a person chose, not an error
    """The person no longer wants what is being fetched."""


@dataclass(frozen=True)
class Transfer:
    """How far a pull is. Bytes and bytes a second; None where it is not known."""

    stage: str  # "waiting", "connecting", "downloading", "retrying", "paused", "verifying", "unpacking" ..
    done: int  # bytes, of all parts of the model together
    total: int | None
    speed: float | None = None
    seconds_left: float | None = None
    note: str = ""  # more about the stage, for a person: "part 2 of 3", "503 from the server, next try in 4 s"


def ignore_progress(_stage: str, _done: int, _total: int | None) -> None:
    """For callers that show nothing."""


class Steering:
    """Between a pull and whoever watches it: reports in one direction, pause and cancel in the other.

    `report` gets a `Transfer` at most ten times a second, in the thread that pulls; what it raises ends the pull.
    """

    def __init__(self, report: Callable[[Transfer], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self._clock = clock
        self._unwanted = threading.Event()
        self._paused = threading.Event()
        self._step = ("", "")
        self._seen: deque[tuple[float, int]] = deque()  # (when, bytes done)
        self._reported_at = float("-inf")

    def cancel(self) -> None:
        """End the pull when it looks up next, a tenth of a second from now. From any thread."""
        self._unwanted.set()

    @property
    def paused(self) -> bool:
        """Whether the pull is to wait for `resume`."""
        return self._paused.is_set() and not self._unwanted.is_set()

    def pause(self) -> None:
        """Have nothing more taken from the network. From any thread."""
        self._paused.set()

    def resume(self) -> None:
        """Let a paused pull go on."""
        self._paused.clear()

    def __call__(self, stage: str, done: int, total: int | None, note: str = "") -> None:
        """Tell of a step. Raises Cancelled, or what `report` raises."""
        if self._unwanted.is_set():
            raise Cancelled
        now = self._clock()
        if (stage, note) != self._step or (self._seen and done < self._seen[-1][1]):
            self._step, self._reported_at = (stage, note), float("-inf")
            self._seen.clear()
        if now - self._reported_at < POLL_S and done != total:
            return
        self._reported_at = now
        self._seen.append((now, done))
        while now - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        (then, before) = self._seen[0]
        speed = (done - before) / (now - then) if now > then else None
        left = (total - done) / speed if total and speed else None
        self._report(Transfer(stage, done, total, speed, left, note))
