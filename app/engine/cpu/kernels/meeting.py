"""Where the threads of a step meet, and how one of them stands aside while its process needs a core for something else.

A screen that is drawn beside a step takes a core from one of its threads, in the middle of a piece of work, and all
others wait for that piece: the step loses as if every core had been taken. So while somebody in the process wants a
core, the last thread leaves the step at the next barrier, the others do its share, and it comes back when the core is
free again. No result depends on it: a piece of work is the same whoever takes it.
"""

from __future__ import annotations

from typing import Any

from app.engine.cpu.kernels.atomics import fetch_add, load_acquire, store_release
from app.engine.cpu.kernels.context import counters, word
from app.engine.cpu.kernels.scalars import load_i64
from app.engine.cpu.kernels.vectors import jit
from app.engine.cpu.kernels.waiting import wait_for, wake
from app.engine.cpu.layout import PHASES, Ctx, Sync


@jit
def barrier(ctx: int, arrived: int, active: int) -> int:
    """Wait until all `active` threads are here. `arrived` and the result count the arrivals of this step."""
    arrived += active
    if active > 1:
        arrivals = word(ctx, Ctx.SYNC) + Sync.ARRIVALS
        if fetch_add(arrivals, 1) + 1 < arrived:
            wait_for(arrivals, arrived)
        else:
            wake(arrivals)
    elif word(ctx, Ctx.N_THREADS) > 1:  # alone for now: who comes back counts on
        fetch_add(word(ctx, Ctx.SYNC) + Sync.ARRIVALS, 1)
    return arrived


@jit
def meet(ctx: int, tid: int, phase: int, arrived: int, active: int) -> Any:
    """The barrier after a phase; (the phase to go on with, arrivals, threads that take part in it).

    Thread 0 says before it arrives how many go on. It says it on a word of its own for each phase, so that a thread
    that reads late reads the same.
    """
    sync, n_threads = word(ctx, Ctx.SYNC), word(ctx, Ctx.N_THREADS)
    going_on = counters(ctx, phase) + Sync.GO_ON
    if tid == 0:
        wanted = load_acquire(word(ctx, Ctx.ASIDE)) != 0 and phase + 1 < word(ctx, Ctx.END_PHASE)
        store_release(going_on, n_threads - 1 if wanted and n_threads > 1 else n_threads)
    arrived = barrier(ctx, arrived, active)
    coming = load_acquire(going_on)
    if phase % PHASES == PHASES - 1 and load_acquire(sync + Sync.STOPPED) != 0:  # it is set in such phases only
        return word(ctx, Ctx.END_PHASE), arrived, active
    if tid == 0 and coming > active:
        call_back(ctx, phase + 1, arrived)
    if tid >= coming:
        wait_for(sync + Sync.RETURN_PHASE, phase + 2)
        return load_acquire(sync + Sync.RETURN_PHASE), load_i64(sync + Sync.RETURN_ARRIVALS), n_threads
    return phase + 1, arrived, coming


@jit
def call_back(ctx: int, phase: int, arrived: int) -> None:
    """Have the thread that stands aside go on with `phase`, or leave the step if that is past its last."""
    returns = word(ctx, Ctx.SYNC) + Sync.RETURN_PHASE
    store_release(word(ctx, Ctx.SYNC) + Sync.RETURN_ARRIVALS, arrived)
    fetch_add(returns, phase - load_acquire(returns))
    wake(returns)
