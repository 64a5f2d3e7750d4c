"""What a group of packed rows holds, a block of 32 columns at a time: weights as bytes, their scale, their minimum.

Each quantised format has a `Reader`, whose functions are compiled into the products of `matmul` (few tokens) and
`tile_products` (many). The planes of a group are written by `app.engine.cpu.pack`, which also documents them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types

from app.engine.cpu.isa import InstructionSet
from app.engine.cpu.kernels.vectors import (
    I16,
    I32,
    Vector,
    define_binary,
    define_fma,
    define_int_to_float,
    define_load,
    define_splat,
    define_store,
    intrinsic,
    jit,
    load_at,
)
from app.engine.cpu.layout import SEGMENT
from app.engine.formats import GGMLType


class Lanes:
    """The vector operations of one instruction set's width."""

    def __init__(self, isa: InstructionSet) -> None:
        self.floats, self.ints = Vector("f32", isa.lanes), Vector("i32", isa.lanes)
        self.octets = Vector("i8", 4 * isa.lanes)
        self.load = define_load(self.floats)
        self.load_f16 = define_load(self.floats, "f16")
        self.load_u8 = define_load(self.floats, "i8", signed=False)
        self.load_bytes = define_load(self.octets)
        self.load_i8_ints = define_load(self.ints, "i8")
        self.store, self.store_bytes = define_store(self.floats), define_store(self.octets)
        self.splat, self.splat_int = define_splat(self.floats), define_splat(self.ints)
        self.fma = define_fma(self.floats)
        self.add, self.mul = define_binary(self.floats, "fadd"), define_binary(self.floats, "fmul")
        self.or_bytes = define_binary(self.octets, "or_")
        self.to_float = define_int_to_float(self.ints, self.floats)

    def bits(self, shift: int, mask: int, left: int = 0) -> Any:
        """`take(bytes)` = ((byte >> shift) & mask) << left, for each byte."""
        octets = self.octets

        @intrinsic
        def take(typing: Any, value: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                def constant(number: int) -> Any:
                    return ir.Constant(octets.llvm, [number] * octets.lanes)

                part = builder.and_(builder.lshr(args[0], constant(shift)), constant(mask))
                return builder.shl(part, constant(left)) if left else part

            return octets(octets), generate

        return take

    def minus(self, number: int) -> Any:
        """`less(bytes)` = byte - number, for each byte."""
        octets = self.octets

        @intrinsic
        def less(typing: Any, value: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                return builder.sub(args[0], ir.Constant(octets.llvm, [number] * octets.lanes))

            return octets(octets), generate

        return less

    def load_bf16(self) -> Any:
        """A load of bfloat16 rows: the upper half of a float32."""
        floats, lanes = self.floats, self.floats.lanes

        @intrinsic
        def load(typing: Any, address: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                shorts = load_at(builder, args[0], ir.VectorType(I16, lanes), 2)
                words = builder.zext(shorts, ir.VectorType(I32, lanes))
                high = builder.shl(words, ir.Constant(words.type, [16] * lanes))
                return builder.bitcast(high, floats.llvm)

            return floats(types.intp), generate

        return load


def define_unpack(lanes: Lanes, width: int, high_bits: int) -> Any:
    """`unpack(low, high)`: the eight byte vectors of a block, from its nibbles and, for 5 and 6 bits, its upper bits.

    A byte of nibble vector j holds quads j (low half) and j + 4 (high half). One upper bit: bit j of a byte belongs to
    quad j. Two upper bits: bits 2j.. of vector j // 4.
    """
    octet_bytes = 4 * width
    load, either = lanes.load_bytes, lanes.or_bytes
    low, high = lanes.bits(0, 15), lanes.bits(4, 15)
    if high_bits == 1:
        u0, u1, u2, u3, u4, u5, u6, u7 = (lanes.bits(j, 1, 4) for j in range(8))
    else:
        u0, u1, u2, u3 = (lanes.bits(2 * j, 3, 4) for j in range(4))
        u4, u5, u6, u7 = u0, u1, u2, u3

    @jit
    def nibbles(address: int, _: int) -> Any:
        a, b = load(address), load(address + octet_bytes)
        c, d = load(address + 2 * octet_bytes), load(address + 3 * octet_bytes)
        return low(a), low(b), low(c), low(d), high(a), high(b), high(c), high(d)

    if high_bits == 0:
        return nibbles
    second = octet_bytes * (high_bits - 1)

    @jit
    def with_high_bits(address: int, plane: int) -> Any:
        q0, q1, q2, q3, q4, q5, q6, q7 = nibbles(address, 0)
        p, r = load(plane), load(plane + second)
        return (
            either(q0, u0(p)), either(q1, u1(p)), either(q2, u2(p)), either(q3, u3(p)),
            either(q4, u4(r)), either(q5, u5(r)), either(q6, u6(r)), either(q7, u7(r)),
        )  # fmt: skip

    return with_high_bits


def define_unpack_bytes(lanes: Lanes, width: int) -> Any:
    """`unpack(address, _)`: the eight byte vectors of a block that is stored as int8."""
    load, step = lanes.load_bytes, 4 * width

    @jit
    def unpack(address: int, _: int) -> Any:
        return (
            load(address), load(address + step), load(address + 2 * step), load(address + 3 * step),
            load(address + 4 * step), load(address + 5 * step), load(address + 6 * step), load(address + 7 * step),
        )  # fmt: skip

    return unpack


@dataclass(frozen=True)
class Reader:
    """How to read one quantised format. Weights are `stored - offset`.

    block_bytes                of all planes, for one block: the pace of a walk over a group
    planes(group, n_blocks)    addresses of the planes, the largest first; what the others take
    weights(planes, block)     eight vectors, vector j with columns 4j..4j+3 of every row, as stored
    scale(planes, block)       float32 of every row
    minimum(planes, block)     the same, where has_min
    """

    bits: int
    offset: int
    has_min: bool
    block_bytes: int
    planes: Any
    weights: Any
    scale: Any
    minimum: Any


def define_readers(isa: InstructionSet) -> dict[GGMLType, Reader]:
    """The readers of all quantised formats."""
    return {
        GGMLType.Q8_0: _plain(isa, 8, 0, False),
        GGMLType.Q4_0: _plain(isa, 4, 8, False),
        GGMLType.Q4_1: _plain(isa, 4, 0, True),
        GGMLType.Q5_0: _plain(isa, 5, 16, False),
        GGMLType.Q5_1: _plain(isa, 5, 0, True),
        GGMLType.Q4_K: _k(isa, 4),
        GGMLType.Q5_K: _k(isa, 5),
        GGMLType.Q6_K: _q6_k(isa),
    }


def _plain(isa: InstructionSet, bits: int, offset: int, has_min: bool) -> Reader:
    """Q8_0, Q4_0, Q4_1, Q5_0, Q5_1: a float16 scale and perhaps a float16 minimum for each block of 32."""
    lanes, width = Lanes(isa), isa.lanes
    unpack = define_unpack_bytes(lanes, width) if bits == 8 else define_unpack(lanes, width, bits - 4)
    load_f16 = lanes.load_f16
    low_bytes = (32 if bits == 8 else 16) * width
    high_bytes = 4 * width if bits == 5 else 0
    scale_bytes = 2 * width

    @jit
    def planes(group: int, n_blocks: int) -> Any:
        minima = group + n_blocks * scale_bytes
        high = minima + n_blocks * scale_bytes if has_min else minima
        return high + n_blocks * high_bytes, high, group, minima

    @jit
    def weights(planes: Any, block: int) -> Any:
        return unpack(planes[0] + block * low_bytes, planes[1] + block * high_bytes)

    @jit
    def scale(planes: Any, block: int) -> Any:
        return load_f16(planes[2] + block * scale_bytes)

    @jit
    def minimum(planes: Any, block: int) -> Any:
        return load_f16(planes[3] + block * scale_bytes)

    block_bytes = low_bytes + high_bytes + (2 if has_min else 1) * scale_bytes
    return Reader(bits, offset, has_min, block_bytes, planes, weights, scale, minimum)


def _k(isa: InstructionSet, bits: int) -> Reader:
    """Q4_K, Q5_K: 6-bit scales and minima for each block, float16 factors of both for each segment."""
    lanes, width = Lanes(isa), isa.lanes
    unpack, load_f16, load_u8, splat, mul = (
        define_unpack(lanes, width, bits - 4), lanes.load_f16, lanes.load_u8, lanes.splat, lanes.mul,
    )  # fmt: skip
    low_bytes, high_bytes, factor_bytes = 16 * width, 4 * width * (bits - 4), 2 * width

    @jit
    def planes(group: int, n_blocks: int) -> Any:
        factors = n_blocks // SEGMENT * factor_bytes
        scales = group + 2 * factors
        minima = scales + n_blocks * width
        high = minima + n_blocks * width
        return high + n_blocks * high_bytes, high, group, group + factors, scales, minima

    @jit
    def weights(planes: Any, block: int) -> Any:
        return unpack(planes[0] + block * low_bytes, planes[1] + block * high_bytes)

    @jit
    def scale(planes: Any, block: int) -> Any:
        return mul(load_f16(planes[2] + block // SEGMENT * factor_bytes), load_u8(planes[4] + block * width))

    @jit
    def minimum(planes: Any, block: int) -> Any:
        dmin = mul(load_f16(planes[3] + block // SEGMENT * factor_bytes), splat(-1.0))
        return mul(dmin, load_u8(planes[5] + block * width))

    block_bytes = low_bytes + high_bytes + 2 * width + 2 * factor_bytes // SEGMENT
    return Reader(bits, 0, True, block_bytes, planes, weights, scale, minimum)


def _q6_k(isa: InstructionSet) -> Reader:
    """Q6_K: one float16 factor for each segment. The int8 scales of half blocks, [blocks][2][lanes], are planes[3]."""
    lanes, width = Lanes(isa), isa.lanes
    unpack, load_f16 = define_unpack(lanes, width, 2), lanes.load_f16
    low_bytes, high_bytes, factor_bytes = 16 * width, 8 * width, 2 * width

    @jit
    def planes(group: int, n_blocks: int) -> Any:
        scales = group + n_blocks // SEGMENT * factor_bytes
        high = scales + n_blocks * 2 * width
        return high + n_blocks * high_bytes, high, group, scales

    @jit
    def weights(planes: Any, block: int) -> Any:
        return unpack(planes[0] + block * low_bytes, planes[1] + block * high_bytes)

    @jit
    def scale(planes: Any, block: int) -> Any:
        return load_f16(planes[2] + block // SEGMENT * factor_bytes)

    block_bytes = low_bytes + high_bytes + 2 * width + factor_bytes // SEGMENT
    return Reader(6, 32, False, block_bytes, planes, weights, scale, scale)
