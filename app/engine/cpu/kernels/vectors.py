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
