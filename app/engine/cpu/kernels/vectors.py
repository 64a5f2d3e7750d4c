"""SIMD values for numba: vector types of fixed width and the few operations that the kernels are written in.

numba has no vector values of its own. Here a `Vector` is a numba type that LLVM sees as `<lanes x element>`, and every
operation is an `@intrinsic` of one or two LLVM instructions. LLVM splits a vector that is wider than the machine's
registers, so the order of the float operations, and with it every bit of the result, is the same on every machine.

Nothing here allocates, raises or refers to Python: compiled kernels need no numba at run time (see `compile.py`).
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types
from numba.extending import models, register_model

from app.engine.cpu.layout import WIDE

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
F16, F32, POINTER = ir.HalfType(), ir.FloatType(), ir.PointerType()
ELEMENTS = {"f32": F32, "f16": F16, "i32": I32, "i16": I16, "i8": I8}

# How every kernel function is compiled: no exceptions (divisions as NumPy's), and nothing callable from Python.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
jit: Any = numba.njit(**_OPTIONS)
intrinsic: Any = extending.intrinsic  # numba's own type for it hides the signatures that the decorated code defines


class Vector(types.Type):
    """The numba type of a SIMD value: `lanes` elements of one kind ("f32", "i32", "i8", ...)."""

    def __init__(self, element: str, lanes: int) -> None:
        self.element, self.lanes = element, lanes
        super().__init__(f"{element}x{lanes}")

    @property
    def llvm(self) -> ir.VectorType:
        """The LLVM type."""
        return ir.VectorType(ELEMENTS[self.element], self.lanes)


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """A vector is one LLVM value, in registers and in memory."""

    def __init__(self, dmm: Any, fe_type: Vector) -> None:
        super().__init__(dmm, fe_type, fe_type.llvm)


F32X16 = Vector("f32", WIDE)
I32X16 = Vector("i32", WIDE)


# --- building blocks for the code generators below -----------------------------------------------------------------


def call(builder: Any, name: str, result: Any, args: list[Any]) -> Any:
    """Call the LLVM intrinsic or external function `name`."""
    signature = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), args)


def broadcast(builder: Any, scalar: Any, lanes: int) -> Any:
    """A vector with `scalar` in every lane."""
    vector = ir.VectorType(scalar.type, lanes)
    undefined = ir.Constant(vector, ir.Undefined)
    zeros = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
    return builder.shuffle_vector(builder.insert_element(undefined, scalar, I32(0)), undefined, zeros)


def load_at(builder: Any, address: Any, kind: Any, align: int) -> Any:
    """Load a value of LLVM type `kind` from an integer address."""
    value = builder.load(builder.inttoptr(address, POINTER), typ=kind)
    value.align = align
    return value


def fma_name(lanes: int) -> str:
    """The LLVM name of the fused multiply-add of float vectors."""
    return f"llvm.fma.v{lanes}f32"


def define_load(vector: Vector, memory: str | None = None, signed: bool = True) -> Any:
    """A `load(address) -> vector` that converts from element kind `memory` on the way."""
    memory = memory or vector.element
    stored = ir.VectorType(ELEMENTS[memory], vector.lanes)

    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = load_at(builder, args[0], stored, 1)
            if memory == vector.element:
                return value
            if memory == "f16":
                return builder.fpext(value, vector.llvm)
            wide = ir.VectorType(I32, vector.lanes)
            value = builder.sext(value, wide) if signed else builder.zext(value, wide)
            return value if vector.element == "i32" else builder.sitofp(value, vector.llvm)

        return vector(types.intp), generate

    return load


def define_store(vector: Vector, memory: str | None = None) -> Any:
    """A `store(address, vector)` that converts to element kind `memory` on the way (floats round to nearest even)."""
    memory = memory or vector.element
    stored = ir.VectorType(ELEMENTS[memory], vector.lanes)

    @intrinsic
    def store(typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            out = args[1]
            if memory == "f16":
                out = builder.fptrunc(out, stored)
            elif memory != vector.element:
                out = builder.trunc(out, stored)
            builder.store(out, builder.inttoptr(args[0], POINTER)).align = 1
            return context.get_dummy_value()

        return types.void(types.intp, vector), generate

    return store


def define_binary(vector: Vector, operation: str) -> Any:
    """An elementwise operation of two vectors, named as the llvmlite builder method or LLVM intrinsic."""

    @intrinsic
    def binary(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if operation.startswith("llvm."):
                return call(builder, f"{operation}.v{vector.lanes}{vector.element}", vector.llvm, list(args))
            return getattr(builder, operation)(*args)

        return vector(vector, vector), generate

    return binary


def define_splat(vector: Vector) -> Any:
    """A `splat(scalar) -> vector`."""
    scalar = types.float32 if vector.element == "f32" else types.int32

    @intrinsic
    def splat(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return broadcast(builder, args[0], vector.lanes)

        return vector(scalar), generate

    return splat


def define_fma(vector: Vector) -> Any:
    """`fma(a, b, c)` = a*b + c with one rounding."""

    @intrinsic
    def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return call(builder, fma_name(vector.lanes), vector.llvm, list(args))

        return vector(vector, vector, vector), generate

    return fma


def define_int_to_float(ints: Vector, floats: Vector) -> Any:
    """Exact or nearest-even conversion of int32 lanes."""

    @intrinsic
    def convert(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.sitofp(args[0], floats.llvm)

        return floats(ints), generate

    return convert


# --- row operations: 16 lanes everywhere ----------------------------------------------------------------------------

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


# --- scalars and addresses ------------------------------------------------------------------------------------------


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
