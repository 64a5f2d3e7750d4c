"""Products of packed weights with activations, one group of rows at a time: `multiply(format, group, ...)`.

A lane owns a row, so a group's `lanes` sums grow side by side and nothing is added across lanes. The order of the float
operations of a row is the numerics contract (docs/numerics.md): within a segment of 8 blocks

    acc = fma(float(isum) * dx, dw, acc)
    acc = fma(float(xsum) * dx, m, acc)      for formats with a minimum

block by block, then segment sums added in order. It does not depend on the number of tokens: weights are unpacked
once a block and used for each token in turn.

Activations are laid out in the order of that walk: int8 [blocks, tokens, 32], scales float32 [blocks, tokens], sums
int32 [blocks, tokens, 2] (of the two halves of a block), and for float weights float32 [blocks, tokens, 32]. `x` is
the tuple of these four addresses. A group's planes are written by `app.engine.cpu.pack`, which also documents them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from app.engine.cpu.isa import InstructionSet
from app.engine.cpu.kernels.dot import SIGNED, define_dot
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
    load_f32,
    load_i32,
    prefetch,
)
from app.engine.cpu.layout import BLOCK, SEGMENT
from app.engine.formats import GGMLType

AHEAD = 4096  # bytes: how far before its use a line of weights is asked for


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
        self.store = define_store(self.floats)
        self.splat, self.splat_int = define_splat(self.floats), define_splat(self.ints)
        self.fma = define_fma(self.floats)
        self.add, self.mul = define_binary(self.floats, "fadd"), define_binary(self.floats, "fmul")
        self.add_ints, self.sub_ints = define_binary(self.ints, "add"), define_binary(self.ints, "sub")
        self.mul_ints, self.or_bytes = define_binary(self.ints, "mul"), define_binary(self.octets, "or_")
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


def define_plain(isa: InstructionSet, bits: int, offset: int, has_min: bool) -> Any:
    """Q8_0, Q4_0, Q4_1, Q5_0, Q5_1: a float16 scale and perhaps a float16 minimum for each block of 32."""
    lanes, width = Lanes(isa), isa.lanes
    unpack = define_unpack_bytes(lanes, width) if bits == 8 else define_unpack(lanes, width, bits - 4)
    dot = define_dot(isa, SIGNED if bits == 8 else 2**bits - 1)
    load, store, load_f16, splat, splat_int = lanes.load, lanes.store, lanes.load_f16, lanes.splat, lanes.splat_int
    fma, add, mul, sub_ints, to_float = lanes.fma, lanes.add, lanes.mul, lanes.sub_ints, lanes.to_float
    low_bytes = (32 if bits == 8 else 16) * width  # of one block, in each plane
    high_bytes = 4 * width if bits == 5 else 0
    scale_bytes = 2 * width

    @jit
    def kernel(group: int, n_blocks: int, x: Any, n_tokens: int, out: int, stride: int, acc: int) -> None:
        scales = group
        minima = scales + n_blocks * scale_bytes
        high = minima + n_blocks * scale_bytes if has_min else minima
        low = high + n_blocks * high_bytes
        for first in range(0, n_blocks, SEGMENT):
            for t in range(n_tokens):
                store(acc + t * 4 * width, splat(0.0))
            for block in range(first, min(first + SEGMENT, n_blocks)):
                for line in range(0, low_bytes, 64):
                    prefetch(low + block * low_bytes + AHEAD + line)
                weights = unpack(low + block * low_bytes, high + block * high_bytes)
                dw = load_f16(scales + block * scale_bytes)
                m = load_f16(minima + block * scale_bytes) if has_min else dw
                for t in range(n_tokens):
                    row = block * n_tokens + t
                    isum = dot(weights, x[0] + row * BLOCK)
                    dx = load_f32(x[1] + row * 4)
                    total = load(acc + t * 4 * width)
                    if offset != 0:
                        xsum = load_i32(x[2] + row * 8) + load_i32(x[2] + row * 8 + 4)
                        isum = sub_ints(isum, splat_int(offset * xsum))
                    total = fma(mul(to_float(isum), splat(dx)), dw, total)
                    if has_min:
                        xsum = load_i32(x[2] + row * 8) + load_i32(x[2] + row * 8 + 4)
                        total = fma(splat(types.float32(xsum) * dx), m, total)
                    store(acc + t * 4 * width, total)
            for t in range(n_tokens):
                total = load(acc + t * 4 * width)
                store(out + t * stride, total if first == 0 else add(load(out + t * stride), total))

    return kernel


def define_k(isa: InstructionSet, bits: int) -> Any:
    """Q4_K, Q5_K: 6-bit scales and minima for each block, float16 factors of both for each segment."""
    lanes, width = Lanes(isa), isa.lanes
    unpack, dot = define_unpack(lanes, width, bits - 4), define_dot(isa, 2**bits - 1)
    load, store, load_f16, load_u8, splat = lanes.load, lanes.store, lanes.load_f16, lanes.load_u8, lanes.splat
    fma, add, mul, to_float = lanes.fma, lanes.add, lanes.mul, lanes.to_float
    low_bytes, high_bytes = 16 * width, 4 * width * (bits - 4)

    @jit
    def kernel(group: int, n_blocks: int, x: Any, n_tokens: int, out: int, stride: int, acc: int) -> None:
        n_segments = n_blocks // SEGMENT
        d_plane = group
        dmin_plane = d_plane + n_segments * 2 * width
        scales = dmin_plane + n_segments * 2 * width
        minima = scales + n_blocks * width
        high = minima + n_blocks * width
        low = high + n_blocks * high_bytes
        for segment in range(n_segments):
            d = load_f16(d_plane + segment * 2 * width)
            dmin = mul(load_f16(dmin_plane + segment * 2 * width), splat(-1.0))
            for t in range(n_tokens):
                store(acc + t * 4 * width, splat(0.0))
            for block in range(segment * SEGMENT, (segment + 1) * SEGMENT):
                for line in range(0, low_bytes, 64):
                    prefetch(low + block * low_bytes + AHEAD + line)
                weights = unpack(low + block * low_bytes, high + block * high_bytes)
                dw = mul(d, load_u8(scales + block * width))
                m = mul(dmin, load_u8(minima + block * width))
                for t in range(n_tokens):
                    row = block * n_tokens + t
                    isum = dot(weights, x[0] + row * BLOCK)
                    dx = load_f32(x[1] + row * 4)
                    xsum = load_i32(x[2] + row * 8) + load_i32(x[2] + row * 8 + 4)
                    total = fma(mul(to_float(isum), splat(dx)), dw, load(acc + t * 4 * width))
                    store(acc + t * 4 * width, fma(splat(types.float32(xsum) * dx), m, total))
            for t in range(n_tokens):
                total = load(acc + t * 4 * width)
                store(out + t * stride, total if segment == 0 else add(load(out + t * stride), total))

    return kernel


def define_q6_k(isa: InstructionSet) -> Any:
    """Q6_K: an int8 scale for each half block of 16, one float16 factor for each segment; weights are stored + 32."""
    lanes, width = Lanes(isa), isa.lanes
    unpack, dot = define_unpack(lanes, width, 2), define_dot(isa, 63)
    load, store, load_f16, load_ints = lanes.load, lanes.store, lanes.load_f16, lanes.load_i8_ints
    splat, splat_int, fma, add, mul = lanes.splat, lanes.splat_int, lanes.fma, lanes.add, lanes.mul
    add_ints, sub_ints, mul_ints, to_float = lanes.add_ints, lanes.sub_ints, lanes.mul_ints, lanes.to_float
    low_bytes, high_bytes = 16 * width, 8 * width

    @jit
    def kernel(group: int, n_blocks: int, x: Any, n_tokens: int, out: int, stride: int, acc: int) -> None:
        d_plane = group
        scales = d_plane + n_blocks // SEGMENT * 2 * width
        high = scales + n_blocks * 2 * width
        low = high + n_blocks * high_bytes
        for segment in range(n_blocks // SEGMENT):
            d = load_f16(d_plane + segment * 2 * width)
            for t in range(n_tokens):
                store(acc + t * 4 * width, splat(0.0))
            for block in range(segment * SEGMENT, (segment + 1) * SEGMENT):
                for line in range(0, low_bytes, 64):
                    prefetch(low + block * low_bytes + AHEAD + line)
                w0, w1, w2, w3, w4, w5, w6, w7 = unpack(low + block * low_bytes, high + block * high_bytes)
                scale0 = load_ints(scales + block * 2 * width)
                scale1 = load_ints(scales + block * 2 * width + width)
                for t in range(n_tokens):
                    row = block * n_tokens + t
                    half0 = dot((w0, w1, w2, w3), x[0] + row * BLOCK)
                    half1 = dot((w4, w5, w6, w7), x[0] + row * BLOCK + 16)
                    half0 = sub_ints(half0, splat_int(32 * load_i32(x[2] + row * 8)))
                    half1 = sub_ints(half1, splat_int(32 * load_i32(x[2] + row * 8 + 4)))
                    isum = add_ints(mul_ints(half0, scale0), mul_ints(half1, scale1))
                    scaled = mul(to_float(isum), splat(load_f32(x[1] + row * 4)))
                    store(acc + t * 4 * width, fma(scaled, d, load(acc + t * 4 * width)))
            for t in range(n_tokens):
                total = load(acc + t * 4 * width)
                store(out + t * stride, total if segment == 0 else add(load(out + t * stride), total))

    return kernel


def define_float(isa: InstructionSet, load_weights: Any, n_bytes: int) -> Any:
    """F32, F16, BF16: acc = fma(x, w, acc) column by column within a segment. `n_bytes` a weight."""
    lanes, width = Lanes(isa), isa.lanes
    load, store, splat, fma, add = lanes.load, lanes.store, lanes.splat, lanes.fma, lanes.add
    block_bytes = BLOCK * n_bytes * width

    @jit
    def kernel(group: int, n_blocks: int, x: Any, n_tokens: int, out: int, stride: int, acc: int) -> None:
        for first in range(0, n_blocks, SEGMENT):
            for t in range(n_tokens):
                total = splat(0.0)
                for block in range(first, min(first + SEGMENT, n_blocks)):
                    activations = x[3] + (block * n_tokens + t) * BLOCK * 4
                    for column in range(BLOCK):
                        weights = load_weights(group + block * block_bytes + column * n_bytes * width)
                        total = fma(splat(load_f32(activations + column * 4)), weights, total)
                store(out + t * stride, total if first == 0 else add(load(out + t * stride), total))

    return kernel


def define_multiply(isa: InstructionSet) -> Any:
    """`multiply(format, group, n_blocks, x, n_tokens, out, stride, acc)`: the rows of one group for every token.

    Row r of token t goes to float32 `out[t * stride bytes + r]`; `acc` is scratch of [tokens, lanes] float32.
    """
    lanes = Lanes(isa)
    q8_0, q4_0 = define_plain(isa, 8, 0, False), define_plain(isa, 4, 8, False)
    q4_1, q5_0 = define_plain(isa, 4, 0, True), define_plain(isa, 5, 16, False)
    q5_1, q4_k, q5_k, q6_k = define_plain(isa, 5, 0, True), define_k(isa, 4), define_k(isa, 5), define_q6_k(isa)
    f32, f16 = define_float(isa, lanes.load, 4), define_float(isa, lanes.load_f16, 2)
    bf16 = define_float(isa, lanes.load_bf16(), 2)
    id_q8_0, id_q4_0, id_q4_1 = int(GGMLType.Q8_0), int(GGMLType.Q4_0), int(GGMLType.Q4_1)
    id_q5_0, id_q5_1, id_q4_k = int(GGMLType.Q5_0), int(GGMLType.Q5_1), int(GGMLType.Q4_K)
    id_q5_k, id_q6_k, id_f16, id_bf16 = int(GGMLType.Q5_K), int(GGMLType.Q6_K), int(GGMLType.F16), int(GGMLType.BF16)

    @jit
    def multiply(kind: int, group: int, n_blocks: int, x: Any, n_tokens: int, out: int, stride: int, acc: int) -> None:
        if kind == id_q8_0:
            q8_0(group, n_blocks, x, n_tokens, out, stride, acc)
        elif kind == id_q4_0:
            q4_0(group, n_blocks, x, n_tokens, out, stride, acc)
        elif kind == id_q4_1:
            q4_1(group, n_blocks, x, n_tokens, out, stride, acc)
        elif kind == id_q5_0:
            q5_0(group, n_blocks, x, n_tokens, out, stride, acc)
        elif kind == id_q5_1:
            q5_1(group, n_blocks, x, n_tokens, out, stride, acc)
        elif kind == id_q4_k:
            q4_k(group, n_blocks, x, n_tokens, out, stride, acc)
        elif kind == id_q5_k:
            q5_k(group, n_blocks, x, n_tokens, out, stride, acc)
        elif kind == id_q6_k:
            q6_k(group, n_blocks, x, n_tokens, out, stride, acc)
        elif kind == id_f16:
            f16(group, n_blocks, x, n_tokens, out, stride, acc)
        elif kind == id_bf16:
            bf16(group, n_blocks, x, n_tokens, out, stride, acc)
        else:
            f32(group, n_blocks, x, n_tokens, out, stride, acc)

    return multiply
