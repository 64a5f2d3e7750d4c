"""How a download behaves: what a person set, how long it is patient, and the clock that it goes by."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from app.settings import load_settings


@dataclass(frozen=True)
class Patience:
    """Seconds and counts after which something is done. A try counts if it brought less than `progress` bytes."""

    connect_s: float = 10.0
    stall_s: float = 30.0  # a connection that brings less than `least` bytes in this time is dropped
    least: int = 16 << 10
    tries: int = 6
    first_wait_s: float = 2.0  # doubled with each try
    longest_wait_s: float = 60.0  # a server that asks for more is not waited for
    progress: int = 1 << 20


@dataclass(frozen=True)
class Clock:
    """Time as the program sees it."""

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time  # seconds since 1970
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Options:
    """`connections` at a time to one server; `bytes_per_s` of all of them together, 0 for no limit.

    `piece`: bytes that one request asks for where several connections share the work; also the most that may be ahead
    of the record of what is here, so no more than that is fetched twice.
    """

    connections: int = 4
    bytes_per_s: float = 0.0
    piece: int = 32 << 20
    patience: Patience = field(default_factory=Patience)
    clock: Clock = field(default_factory=Clock)


def configured() -> Options:
    """The options that the settings ask for."""
    settings = load_settings()
    return Options(settings.download_connections, settings.download_limit_mb * 1e6)
