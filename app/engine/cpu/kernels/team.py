"""How the threads of a pool get their work: without Python, so that none of them waits for its lock.

A thread that had to take the interpreter's lock before each step would stand still while the screen is drawn. So all
but the leader stay in `follow` for as long as the pool lives, and a step costs the leader one call.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from app.engine.cpu.kernels.atomics import fetch_add
from app.engine.cpu.kernels.scalars import load_i64
from app.engine.cpu.kernels.vectors import I64, intrinsic, jit
from app.engine.cpu.kernels.waiting import wait_for, wake
from app.engine.cpu.layout import Team


@intrinsic
def run(typing: Any, entry: Any, table: Any, tid: Any) -> Any:
    """Call the entry of this object file that lies at address `entry`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [I64, I64])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), list(args[1:]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@jit
def lead(team: int, tid: int) -> None:
    """Run the team's job on every thread, this one as `tid` (0); return when all are through."""
    jobs = fetch_add(team + Team.JOBS, 1) + 1
    wake(team + Team.JOBS)
    entry = load_i64(team + Team.ENTRY)
    if entry != 0:
        run(entry, load_i64(team + Team.TABLE), tid)
    wait_for(team + Team.DONE, jobs * load_i64(team + Team.FOLLOWERS))


@jit
def follow(team: int, tid: int) -> None:
    """Run every job as thread `tid`, until one has no entry."""
    jobs = 0
    while True:
        jobs += 1
        wait_for(team + Team.JOBS, jobs)
        entry = load_i64(team + Team.ENTRY)
        if entry != 0:
            run(entry, load_i64(team + Team.TABLE), tid)
        fetch_add(team + Team.DONE, 1)
        wake(team + Team.DONE)
        if entry == 0:
            return
