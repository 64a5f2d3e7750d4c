"""Products of packed weights with 16 or more tokens, through matrix tiles: the bits of `matmul`, many times its speed.

A tile product of one block of 32 columns is the contract's exact int32 for 16 tokens x 16 rows; the float operations
follow on vectors of 16 rows in the contract's order, token by token, with the 16 sums in registers for a whole segment.
A segment's weights are unpacked once, as signed bytes, and then used for all tokens.

Steps whose number of tokens is no multiple of 16 end with a tile that lies over the one before it: its tokens are
computed twice, with the same result.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from app.engine.cpu.isa import InstructionSet
from app.engine.cpu.kernels.scalars import prefetch
from app.engine.cpu.kernels.tiles import SUM_BYTES, multiply_tile
from app.engine.cpu.kernels.unpack import Lanes, Reader
from app.engine.cpu.kernels.vectors import (
    F32,
    F32X16,
    I8,
    I16,
    I32,
    I32X16,
    I64,
    POINTER,
    Vector,
    broadcast,
    call,
    fma_name,
    intrinsic,
    jit,
    load_at,
)
from app.engine.cpu.kernels.wide import add16, load16, store16
from app.engine.cpu.layout import BLOCK, PANEL_BYTES, SEGMENT, TILE_TOKENS, WIDE
from app.engine.formats import GGMLType

BLOCK_BYTES = 8 * 64  # int8 weights of a block
VECTOR = 64  # bytes of 16 float32

# A thread's scratch for a segment: weights (twice for Q6_K), scales and minima float32 [8][16], sums of four tiles.
LOW = SEGMENT * BLOCK_BYTES
SCALES = 2 * LOW
MINIMA = SCALES + SEGMENT * VECTOR
SUMS = MINIMA + SEGMENT * VECTOR
assert SUMS + 4 * SUM_BYTES <= PANEL_BYTES

SumsOf16 = types.UniTuple(F32X16, TILE_TOKENS)


@intrinsic
def zero_sums(typing: Any) -> Any:
    """Sixteen vectors of zeros."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(SumsOf16), None)

    return SumsOf16(), generate


@intrinsic
def store_sums(typing: Any, address: Any, acc: Any) -> Any:
    """Sixteen vectors, one after the other."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for t in range(TILE_TOKENS):
            place = builder.inttoptr(builder.add(args[0], I64(t * VECTOR)), POINTER)
            builder.store(builder.extract_value(args[1], t), place).align = VECTOR
        return context.get_dummy_value()

    return types.void(types.intp, SumsOf16), generate


def define_accumulate(split: bool, has_min: bool) -> Any:
    """`accumulate(acc, sums, dx, dw, scaled_sums, m)`: one block joins the sums of 16 tokens, as the contract says.

    `sums` is the address of a tile's int32, `split` for two tiles that stand for first * 128 + second; `dx` and
    `scaled_sums` are addresses of a float32 for each token; `dw` and `m` are vectors of rows.
    """

    @intrinsic
    def accumulate(typing: Any, acc: Any, sums: Any, dx: Any, dw: Any, scaled_sums: Any, m: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            acc, sums, dx, dw, scaled_sums, m = args

            def number(address: Any, t: int) -> Any:
                return broadcast(builder, load_at(builder, builder.add(address, I64(4 * t)), F32, 4), WIDE)

            def integers(offset: int) -> Any:
                return load_at(builder, builder.add(sums, I64(offset)), I32X16.llvm, 64)

            for t in range(TILE_TOKENS):
                isum = integers(t * VECTOR)
                if split:
                    scaled = builder.shl(isum, ir.Constant(I32X16.llvm, [7] * WIDE))
                    isum = builder.add(scaled, integers(SUM_BYTES + t * VECTOR))
                product = builder.fmul(builder.sitofp(isum, F32X16.llvm), number(dx, t))
                name, total = fma_name(WIDE), builder.extract_value(acc, t)
                total = call(builder, name, F32X16.llvm, [product, dw, total])
                if has_min:
                    total = call(builder, name, F32X16.llvm, [number(scaled_sums, t), m, total])
                acc = builder.insert_value(acc, total, t)
            return acc

        return SumsOf16(SumsOf16, types.intp, types.intp, F32X16, types.intp, F32X16), generate

    return accumulate


@intrinsic
def scaled_halves(typing: Any, weights: Any, scales: Any) -> Any:
    """(high, low) of weight * scale = high * 128 + low: 16 rows x 4 bytes of Q6_K, and int8 scales at an address.

    A product lies in -32 * 128 .. 31 * 127, so high fits a signed byte and low is 0..127.
    """
    octets = Vector("i8", 4 * WIDE)
    wide = ir.VectorType(I16, 4 * WIDE)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of_rows = load_at(builder, args[1], ir.VectorType(I8, WIDE), 1)
        picks = ir.Constant(ir.VectorType(I32, 4 * WIDE), [i // 4 for i in range(4 * WIDE)])
        factors = builder.shuffle_vector(of_rows, ir.Constant(of_rows.type, ir.Undefined), picks)
        product = builder.mul(builder.sext(args[0], wide), builder.sext(factors, wide))
        high = builder.trunc(builder.ashr(product, ir.Constant(wide, [7] * 4 * WIDE)), octets.llvm)
        low = builder.trunc(builder.and_(product, ir.Constant(wide, [127] * 4 * WIDE)), octets.llvm)
        return context.make_tuple(builder, signature.return_type, [high, low])

    return types.UniTuple(octets, 2)(octets, types.intp), generate


def define_unpack(lanes: Lanes, reader: Reader) -> Any:
    """`unpack(planes, block, target)`: a block's weights as signed bytes, [8, 16 rows, 4]."""
    weights_of, store, less = reader.weights, lanes.store_bytes, lanes.minus(reader.offset)

    @jit
    def unpack(planes: Any, block: int, target: int) -> None:
        w0, w1, w2, w3, w4, w5, w6, w7 = weights_of(planes, block)
        store(target, less(w0))
        store(target + 64, less(w1))
        store(target + 128, less(w2))
        store(target + 192, less(w3))
        store(target + 256, less(w4))
        store(target + 320, less(w5))
        store(target + 384, less(w6))
        store(target + 448, less(w7))

    return unpack


def define_unpack_q6_k(lanes: Lanes, reader: Reader) -> Any:
    """The same for Q6_K with the scales in: two planes of bytes, high at `target` and low LOW further."""
    weights_of, store, less = reader.weights, lanes.store_bytes, lanes.minus(reader.offset)

    @jit
    def put(weights: Any, scales: int, target: int) -> None:
        high, low = scaled_halves(less(weights), scales)
        store(target, high)
        store(target + LOW, low)

    @jit
    def unpack(planes: Any, block: int, target: int) -> None:
        w0, w1, w2, w3, w4, w5, w6, w7 = weights_of(planes, block)
        first = planes[3] + block * 2 * WIDE
        put(w0, first, target)
        put(w1, first, target + 64)
        put(w2, first, target + 128)
        put(w3, first, target + 192)
        put(w4, first + WIDE, target + 256)
        put(w5, first + WIDE, target + 320)
        put(w6, first + WIDE, target + 384)
        put(w7, first + WIDE, target + 448)

    return unpack


def define_tile_product(isa: InstructionSet, kind: GGMLType, reader: Reader) -> Any:
    """The product of one format, with the signature of those in `matmul`; `scratch` has PANEL_BYTES."""
    lanes, split, in_place = Lanes(isa), kind == GGMLType.Q6_K, kind == GGMLType.Q8_0
    unpack = define_unpack_q6_k(lanes, reader) if split else define_unpack(lanes, reader)
    accumulate = define_accumulate(split, reader.has_min)
    planes_of, scale_of, minimum_of = reader.planes, reader.scale, reader.minimum
    has_min, block_bytes = reader.has_min, reader.block_bytes

    @jit
    def multiply(x: int, weights: int, sums: int) -> None:
        multiply_tile(x, weights, sums)
        if split:
            multiply_tile(x, weights + LOW, sums + SUM_BYTES)

    @jit
    def walk(weights: int, scratch: int, count: int, x: Any, row: int, n_tokens: int) -> int:
        """16 tokens over `count` blocks; where the sums are. A tile is multiplied while the one before it is added."""
        acc = zero_sums()
        quants, step = x[0] + row * BLOCK, n_tokens * BLOCK
        multiply(quants, weights, scratch + SUMS)
        for i in range(count):
            if i + 1 < count:
                target = scratch + SUMS + ((i + 1) & 1) * 2 * SUM_BYTES
                multiply(quants + (i + 1) * step, weights + (i + 1) * BLOCK_BYTES, target)
            place = (row + i * n_tokens) * 4
            acc = accumulate(
                acc, scratch + SUMS + (i & 1) * 2 * SUM_BYTES, x[1] + place, load16(scratch + SCALES + i * VECTOR),
                x[3] + place, load16(scratch + MINIMA + i * VECTOR),
            )  # fmt: skip
        store_sums(scratch + SUMS, acc)
        return scratch + SUMS

    @jit
    def product(group: int, n_blocks: int, x: Any, n_tokens: int, out: int, stride: int, scratch: int) -> None:
        planes = planes_of(group, n_blocks)
        for first in range(0, n_blocks, SEGMENT):
            count = min(SEGMENT, n_blocks - first)
            for i in range(count):
                if not in_place:
                    unpack(planes, first + i, scratch + i * BLOCK_BYTES)
                store16(scratch + SCALES + i * VECTOR, scale_of(planes, first + i))
                if has_min:
                    store16(scratch + MINIMA + i * VECTOR, minimum_of(planes, first + i))
            weights = planes[0] + first * BLOCK_BYTES if in_place else scratch
            following, share = planes[0] + (first + count) * block_bytes, SEGMENT * block_bytes // n_tokens
            for token in range(0, n_tokens, TILE_TOKENS):
                base = min(token, n_tokens - TILE_TOKENS)
                # as many bytes as a segment has, one segment on, a share with each tile: tiles never wait for memory
                for line in range(token * share, (token + TILE_TOKENS) * share, 64):
                    prefetch(following + line)
                sums = walk(weights, scratch, count, x, first * n_tokens + base, n_tokens)
                for t in range(token, min(token + TILE_TOKENS, n_tokens)):
                    total = load16(sums + (t - base) * VECTOR)
                    target = out + t * stride
                    store16(target, total if first == 0 else add16(load16(target), total))

    return product
