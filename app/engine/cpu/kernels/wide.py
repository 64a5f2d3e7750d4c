"""Sixteen numbers at a time, on every machine: what norms, softmax and the other row operations are written in.

Sums and maxima fold the lanes in one fixed tree, so they have the same bits whatever the width of the registers.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from app.engine.cpu.kernels.vectors import (
    F32X16,
    I32,
    I32X16,
    call,
    define_binary,
    define_fma,
    define_load,
    define_splat,
    define_store,
    fma_name,
    intrinsic,
)
from app.engine.cpu.layout import WIDE

load16 = define_load(F32X16)
load16_f16 = define_load(F32X16, "f16")
load16_i8 = define_load(F32X16, "i8")
store16 = define_store(F32X16)
store16_f16 = define_store(F32X16, "f16")
store16_i32_as_i8 = define_store(I32X16, "i8")
splat16 = define_splat(F32X16)
fma16 = define_fma(F32X16)
add16 = define_binary(F32X16, "fadd")
sub16 = define_binary(F32X16, "fsub")
mul16 = define_binary(F32X16, "fmul")
div16 = define_binary(F32X16, "fdiv")
max16 = define_binary(F32X16, "llvm.maxnum")
add16_i32 = define_binary(I32X16, "add")


@intrinsic
def abs16(typing: Any, value: Any) -> Any:
    """Absolute value of each lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return call(builder, "llvm.fabs.v16f32", F32X16.llvm, list(args))

    return F32X16(F32X16), generate


@intrinsic
def round16(typing: Any, value: Any) -> Any:
    """Each lane rounded to the nearest integer, ties to even, as int32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        nearest = call(builder, "llvm.roundeven.v16f32", F32X16.llvm, list(args))
        return builder.fptosi(nearest, I32X16.llvm)

    return I32X16(F32X16), generate


def _fold(builder: Any, value: Any, combine: Any) -> Any:
    """The fixed tree of every reduction: lane i with lane i+8, then i+4, i+2, i+1."""
    undefined = ir.Constant(value.type, ir.Undefined)
    for half in (8, 4, 2, 1):
        lanes = [(i + half) % WIDE for i in range(WIDE)]
        other = builder.shuffle_vector(value, undefined, ir.Constant(ir.VectorType(I32, WIDE), lanes))
        value = combine(value, other)
    return builder.extract_element(value, I32(0))


@intrinsic
def sum16(typing: Any, value: Any) -> Any:
    """The sum of the lanes, in the fixed tree."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _fold(builder, args[0], builder.fadd)

    return types.float32(F32X16), generate


@intrinsic
def largest16(typing: Any, value: Any) -> Any:
    """The largest lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _fold(builder, args[0], lambda a, b: call(builder, "llvm.maxnum.v16f32", a.type, [a, b]))

    return types.float32(F32X16), generate


@intrinsic
def sum16_i32(typing: Any, value: Any) -> Any:
    """The exact sum of int32 lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _fold(builder, args[0], builder.add)

    return types.int32(I32X16), generate


# exp(x) = 2^n * e^r, n = round(x / ln 2), |r| <= ln(2) / 2; e^r by a polynomial of degree 6 (from Cephes expf).
LOG2_E, LN2_HIGH, LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
EXP_POLYNOMIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
EXP_LOWEST, EXP_HIGHEST = -87.0, 88.0


@intrinsic
def exp16(typing: Any, value: Any) -> Any:
    """exp of each lane, relative error under 2e-7; 0 below -87, and the value at 88 above 88."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = F32X16.llvm

        def constant(number: float) -> Any:
            return ir.Constant(vector, [number] * WIDE)

        def fma(a: Any, b: Any, c: Any) -> Any:
            return call(builder, fma_name(WIDE), vector, [a, b, c])

        x = args[0]
        clamped = call(builder, "llvm.minnum.v16f32", vector, [x, constant(EXP_HIGHEST)])
        clamped = call(builder, "llvm.maxnum.v16f32", vector, [clamped, constant(EXP_LOWEST)])
        n = call(builder, "llvm.roundeven.v16f32", vector, [builder.fmul(clamped, constant(LOG2_E))])
        r = fma(n, constant(-LN2_HIGH), clamped)
        r = fma(n, constant(-LN2_LOW), r)
        p = constant(EXP_POLYNOMIAL[0])
        for coefficient in EXP_POLYNOMIAL[1:]:
            p = fma(p, r, constant(coefficient))
        p = builder.fadd(fma(p, builder.fmul(r, r), r), constant(1.0))
        exponent = builder.shl(builder.fptosi(n, I32X16.llvm), ir.Constant(I32X16.llvm, [23] * WIDE))
        power = builder.bitcast(builder.add(builder.bitcast(p, I32X16.llvm), exponent), vector)
        too_low = builder.fcmp_ordered("<", x, constant(EXP_LOWEST))
        return builder.select(too_low, constant(0.0), power)

    return F32X16(F32X16), generate
