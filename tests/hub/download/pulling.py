"""Pulling in a test: a model to serve, patience that fits, a clock that does not make anybody wait."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from app.hub.download.gather import steered_pull
from app.hub.download.options import Clock, Options, Patience
from app.hub.library import Library, ModelEntry
from app.hub.transfer import Steering, Transfer
from tests.hub.files import write_gguf

PIECE = 64 << 10  # bytes
LONG_S = 240.0  # for waiting for what comes at once, on a machine that may stand still
PATIENT = Patience(connect_s=LONG_S, stall_s=LONG_S)
SOON_TIRED = Patience(connect_s=LONG_S, stall_s=0.3)


@dataclass
class SkippingClock:
    """Real time, but for sleeping, which is over at once and is remembered; with `real` that is real too."""

    real: bool = False
    skipped: float = 0.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return time.monotonic() + self.skipped

    def wall(self) -> float:
        return time.time() + self.skipped

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.real:
            time.sleep(seconds)
        else:
            self.skipped += seconds

    def clock(self) -> Clock:
        return Clock(self.now, self.wall, self.sleep)


def quick(patience: Patience = PATIENT, *, connections: int = 1, clock: SkippingClock | None = None) -> Options:
    """Options for small files."""
    return Options(connections, piece=PIECE, patience=patience, clock=(clock or SkippingClock()).clock())


def make_body(folder: Path, seed: int = 1, kilobytes: int = 400) -> bytes:
    """A readable GGUF file of about that size."""
    values = np.random.default_rng(seed).standard_normal((kilobytes, 256)).astype(np.float32)
    path = write_gguf(folder / f"source-{seed}.gguf", {"t": values})
    body = path.read_bytes()
    path.unlink()
    return body


@dataclass
class Pull:
    """What a pull said while it ran."""

    transfers: list[Transfer] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def run(self, source: str, library: Library, options: Options | None = None) -> ModelEntry:
        return steered_pull(source, library, Steering(self.transfers.append), self.said.append, options or quick())


def with_tries(patience: Patience, tries: int) -> Patience:
    return replace(patience, tries=tries)
