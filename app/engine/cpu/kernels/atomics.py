"""What threads say to each other through memory: atomic int64 words, and sleeping until one changes."""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba.core import types

from app.engine.cpu.kernels.vectors import I32, I64, POINTER, call, intrinsic

# Linux's futex (uapi/linux/futex.h) and its system call number; 0 on other systems, where waiting threads yield.
FUTEX_WAIT, FUTEX_WAKE, FUTEX_PRIVATE = 0, 1, 128
FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), 0) if platform.system() == "Linux" else 0


@intrinsic
def fetch_add(typing: Any, address: Any, amount: Any) -> Any:
    """Atomically add to an int64 and return what it was."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", builder.inttoptr(args[0], POINTER), args[1], "seq_cst")

    return types.int64(types.intp, types.int64), generate


@intrinsic
def load_acquire(typing: Any, address: Any) -> Any:
    """Read an int64 that another thread writes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], POINTER)
        return builder.load_atomic(pointer, "acquire", 8, typ=I64)

    return types.int64(types.intp), generate


@intrinsic
def store_release(typing: Any, address: Any, value: Any) -> Any:
    """Publish an int64 to other threads."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[1], builder.inttoptr(args[0], I64.as_pointer()), "release", 8)
        return context.get_dummy_value()

    return types.void(types.intp, types.int64), generate


def _futex(builder: Any, address: Any, operation: int, value: Any) -> None:
    """Linux's futex system call on the low half of an int64."""
    nothing = I64(0)
    words = [I64(FUTEX), address, I64(operation | FUTEX_PRIVATE), builder.zext(value, I64), nothing, nothing, nothing]
    call(builder, "syscall", I64, words)


@intrinsic
def sleep_while(typing: Any, address: Any, value: Any) -> Any:
    """Sleep until `wake_all`, unless the int64 at `address` has changed from `value`; may also return for no reason."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if FUTEX:
            _futex(builder, args[0], FUTEX_WAIT, builder.trunc(args[1], I32))
        else:
            call(builder, "sched_yield", I32, [])
        return context.get_dummy_value()

    return types.void(types.intp, types.int64), generate


@intrinsic
def wake_all(typing: Any, address: Any) -> Any:
    """Wake every thread that sleeps at `address`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if FUTEX:
            _futex(builder, args[0], FUTEX_WAKE, I32(2**31 - 1))
        return context.get_dummy_value()

    return types.void(types.intp), generate


@intrinsic
def relax(typing: Any) -> Any:
    """Tell the processor that this is a waiting loop."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if builder.module.triple.startswith("x86_64"):
            call(builder, "llvm.x86.sse2.pause", ir.VoidType(), [])
        elif builder.module.triple.startswith(("aarch64", "arm64")):
            call(builder, "llvm.aarch64.isb", ir.VoidType(), [I32(15)])  # its `yield` takes no time at all
        return context.get_dummy_value()

    return types.void(), generate
