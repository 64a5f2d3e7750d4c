"""Single numbers and addresses: loads, stores, the fused multiply-add, and asking for memory ahead of its use."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from app.engine.cpu.kernels.vectors import F16, F32, I8, I32, I64, POINTER, call, intrinsic, load_at


def _define_scalar_load(result: Any, kind: Any, align: int) -> Any:
    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return load_at(builder, args[0], kind, align)

        return result(types.intp), generate

    return load


def _define_scalar_store(value_type: Any, align: int) -> Any:
    @intrinsic
    def store(typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(args[1], builder.inttoptr(args[0], POINTER)).align = align
            return context.get_dummy_value()

        return types.void(types.intp, value_type), generate

    return store


load_i64 = _define_scalar_load(types.int64, I64, 8)
load_address = _define_scalar_load(types.intp, I64, 8)
load_i32 = _define_scalar_load(types.int32, I32, 4)
load_i8 = _define_scalar_load(types.int8, I8, 1)
load_f32 = _define_scalar_load(types.float32, F32, 4)
store_f32 = _define_scalar_store(types.float32, 4)
store_i32 = _define_scalar_store(types.int32, 4)
store_i8 = _define_scalar_store(types.int8, 1)


@intrinsic
def store_f16(typing: Any, address: Any, value: Any) -> Any:
    """Store a float32 as float16, rounded to nearest even."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        half = builder.fptrunc(args[1], F16)
        builder.store(half, builder.inttoptr(args[0], POINTER)).align = 2
        return context.get_dummy_value()

    return types.void(types.intp, types.float32), generate


@intrinsic
def load_f16(typing: Any, address: Any) -> Any:
    """Load a float16 as float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fpext(load_at(builder, args[0], F16, 2), F32)

    return types.float32(types.intp), generate


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a*b + c of float32 scalars with one rounding."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return call(builder, "llvm.fma.f32", F32, list(args))

    return types.float32(types.float32, types.float32, types.float32), generate


@intrinsic
def prefetch(typing: Any, address: Any) -> Any:
    """Ask for a cache line that will be read soon, into the second level: the first has too few lines on their way."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], POINTER)
        signature = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
        function = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0")
        builder.call(function, [pointer, I32(0), I32(2), I32(1)])
        return context.get_dummy_value()

    return types.void(types.intp), generate
