"""Counters that threads wait for: they look at one for a short while, then sleep.

A thread that sleeps leaves its core idle, so that the system can move a thread there that waits for the core of a busy
neighbour. A counter is an int64 on a cache line of its own, followed by a line with the number of its sleepers.
"""

from __future__ import annotations

from app.engine.cpu.kernels.atomics import fetch_add, load_acquire, relax, sleep_while, wake_all
from app.engine.cpu.kernels.vectors import jit
from app.engine.cpu.layout import CACHE_LINE

SPINS = 500  # looks at a counter before a waiting thread sleeps: about 20 us, twice what a piece of work takes


@jit
def wait_for(counter: int, target: int) -> None:
    """Return when the counter is at `target` or above."""
    spins = 0
    while load_acquire(counter) < target:
        spins += 1
        if spins < SPINS:
            relax()
        else:
            sleepers = counter + CACHE_LINE
            fetch_add(sleepers, 1)
            seen = load_acquire(counter)
            if seen < target:
                sleep_while(counter, seen)
            fetch_add(sleepers, -1)


@jit
def wake(counter: int) -> None:
    """Wake who sleeps, if anyone, after the counter has changed: either they are seen here, or they see the change."""
    if fetch_add(counter + CACHE_LINE, 0) != 0:
        wake_all(counter)
