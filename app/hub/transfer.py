"""A pull that somebody watches: how far and how fast it is, and the switch that ends it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from app.hub.web import Cancelled

REPORT_S = 0.1  # between two reports
WINDOW_S = 5.0  # over which the speed is taken


@dataclass(frozen=True)
class Transfer:
    """How far a pull is. Bytes and bytes a second; None where it is not known."""

    stage: str  # "waiting", "connecting", "downloading", "retrying", "paused", "verifying", "joining", "unpacking" ..
    done: int  # bytes, of all parts of the model together
    total: int | None
    speed: float | None = None
    seconds_left: float | None = None
    note: str = ""  # more about the stage, for a person: "part 2 of 3", "503 from the server, next try in 4 s"


class TransferMeter:
    """An `OnProgress` for `pull`; `report` gets a `Transfer` at most ten times a second, in the thread that pulls."""

    def __init__(self, report: Callable[[Transfer], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self._clock = clock
        self._unwanted = threading.Event()
        self._wanted_now = threading.Event()
        self._wanted_now.set()
        self._stage, self._step = "", ""
        self._seen: deque[tuple[float, int]] = deque()  # (when, bytes done)
        self._reported_at = float("-inf")

    def cancel(self) -> None:
        """End the pull at its next sign of life, a tenth of a second from now at most. From any thread."""
        self._unwanted.set()
        self._wanted_now.set()

    @property
    def paused(self) -> bool:
        """Whether the pull waits for `resume`."""
        return not self._wanted_now.is_set()

    def pause(self) -> None:
        """Hold the pull at its next sign of life. From any thread."""
        if not self._unwanted.is_set():
            self._wanted_now.clear()

    def resume(self) -> None:
        """Let a paused pull go on."""
        self._wanted_now.set()

    def notify(self, text: str) -> None:
        """What `pull` says about the step it is at, such as "part 2 of 3"."""
        self._step = f" {text}"

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if self._unwanted.is_set():
            raise Cancelled
        if self.paused:
            self._report(Transfer("paused", done, total))
            self._wanted_now.wait()
            if self._unwanted.is_set():
                raise Cancelled
            self._stage = ""
        stage += self._step if stage == "downloading" else ""
        now = self._clock()
        if stage != self._stage:
            self._stage, self._reported_at = stage, float("-inf")
            self._seen.clear()
        if now - self._reported_at < REPORT_S and done != total:
            return
        self._reported_at = now
        self._seen.append((now, done))
        while now - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        (then, before) = self._seen[0]
        speed = (done - before) / (now - then) if now > then else None
        left = (total - done) / speed if total and speed else None
        self._report(Transfer(stage, done, total, speed, left))
