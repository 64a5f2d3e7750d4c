"""The multiplications of attention: queries with keys, and weights with values, several at a time in registers.

How many are multiplied at a time decides how often a number is read, never how it is computed: each score and each
weighted value is summed in one fixed order.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from app.engine.cpu.kernels.scalars import load_f32
from app.engine.cpu.kernels.vectors import (
    F32,
    F32X16,
    I64,
    POINTER,
    broadcast,
    call,
    fma_name,
    intrinsic,
    jit,
    load_at,
)
from app.engine.cpu.kernels.wide import add16, fma16, load16, mul16, splat16, store16
from app.engine.cpu.layout import CHUNK, WIDE

VECTOR = 64  # bytes of 16 float32
MANY = 8  # queries of a large step that are multiplied with two tiles of keys at a time
SOME = 4  # queries whose weights are multiplied with 64 columns of values at a time

Grid = types.UniTuple(F32X16, 16)
Addresses = types.UniTuple(types.int64, MANY)


@intrinsic
def zero_grid(typing: Any) -> Any:
    """Sixteen vectors of zeros."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(Grid), None)

    return Grid(), generate


@intrinsic
def add_grids(typing: Any, left: Any, right: Any) -> Any:
    """The sums of each two vectors."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total = args[0]
        for i in range(16):
            one = builder.fadd(builder.extract_value(args[0], i), builder.extract_value(args[1], i))
            total = builder.insert_value(total, one, i)
        return total

    return Grid(Grid, Grid), generate


def _vector_at(builder: Any, address: Any, offset: int = 0) -> Any:
    return load_at(builder, builder.add(address, I64(offset)), F32X16.llvm, 4)


def _number_at(builder: Any, address: Any, offset: Any) -> Any:
    return broadcast(builder, load_at(builder, builder.add(address, offset), F32, 4), WIDE)


def _multiply_grid(builder: Any, acc: Any, factors: list[Any], vectors: list[Any]) -> Any:
    """acc[i * len(vectors) + j] += factors[i] * vectors[j], each with one rounding."""
    for i, factor in enumerate(factors):
        for j, vector in enumerate(vectors):
            at = i * len(vectors) + j
            total = call(builder, fma_name(WIDE), F32X16.llvm, [factor, vector, builder.extract_value(acc, at)])
            acc = builder.insert_value(acc, total, at)
    return acc


@intrinsic
def multiply_keys(typing: Any, acc: Any, queries: Any, keys: Any, others: Any, d: Any) -> Any:
    """Number `d` of eight queries times that of the 16 keys at `keys` and of those at `others`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, queries, keys, others, d = args
        row = builder.mul(d, I64(VECTOR))
        vectors = [_vector_at(builder, builder.add(tile, row)) for tile in (keys, others)]
        place = builder.mul(d, I64(4))
        factors = [_number_at(builder, builder.extract_value(queries, i), place) for i in range(MANY)]
        return _multiply_grid(builder, acc, factors, vectors)

    return Grid(Grid, Addresses, types.int64, types.int64, types.int64), generate


@intrinsic
def store_scores(typing: Any, acc: Any, scale: Any, scores: Any) -> Any:
    """Scaled: 32 scores of each of eight queries, whose rows lie CHUNK floats apart."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        factor = broadcast(builder, args[1], WIDE)
        for i in range(16):
            score = builder.fmul(builder.extract_value(args[0], i), factor)
            place = builder.add(args[2], I64(i // 2 * CHUNK * 4 + i % 2 * VECTOR))
            builder.store(score, builder.inttoptr(place, POINTER)).align = 4
        return context.get_dummy_value()

    return types.void(Grid, types.float32, types.int64), generate


@jit
def quarter(queries: Any, keys: int, others: int, head_dim: int, first: int) -> Any:
    """The sums over every fourth number, from `first` on."""
    acc = zero_grid()
    for d in range(first, head_dim, 4):
        acc = multiply_keys(acc, queries, keys, others, d)
    return acc


@jit
def score_many(queries: Any, keys: int, head_dim: int, scale: float, scores: int) -> None:
    """Eight queries, given by their addresses, against two tiles of keys, float32 [2][head_dim][16].

    The order of the sums is that of `score_pair`: four partial sums, by the number's place modulo 4.
    """
    others = keys + head_dim * VECTOR
    even = add_grids(
        quarter(queries, keys, others, head_dim, 0), quarter(queries, keys, others, head_dim, 2)
    )  # fmt: skip
    odd = add_grids(
        quarter(queries, keys, others, head_dim, 1), quarter(queries, keys, others, head_dim, 3)
    )  # fmt: skip
    store_scores(add_grids(even, odd), scale, scores)


@jit
def score_pair(q: int, r: int, keys: int, head_dim: int, scale: float, q_scores: int, r_scores: int) -> None:
    """Two queries against two tiles of keys, float32 [2][head_dim][16]: 16 partial sums at once fill the FMA units."""
    others, zero = keys + head_dim * VECTOR, splat16(0.0)
    a0, a1, a2, a3, b0, b1, b2, b3 = zero, zero, zero, zero, zero, zero, zero, zero
    c0, c1, c2, c3, d0, d1, d2, d3 = zero, zero, zero, zero, zero, zero, zero, zero
    for d in range(0, head_dim, 4):
        x, y, k, m = q + d * 4, r + d * 4, keys + d * VECTOR, others + d * VECTOR
        u, v = splat16(load_f32(x)), splat16(load_f32(y))
        f, g = load16(k), load16(m)
        a0, b0, c0, d0 = fma16(u, f, a0), fma16(u, g, b0), fma16(v, f, c0), fma16(v, g, d0)
        u, v = splat16(load_f32(x + 4)), splat16(load_f32(y + 4))
        f, g = load16(k + VECTOR), load16(m + VECTOR)
        a1, b1, c1, d1 = fma16(u, f, a1), fma16(u, g, b1), fma16(v, f, c1), fma16(v, g, d1)
        u, v = splat16(load_f32(x + 8)), splat16(load_f32(y + 8))
        f, g = load16(k + 2 * VECTOR), load16(m + 2 * VECTOR)
        a2, b2, c2, d2 = fma16(u, f, a2), fma16(u, g, b2), fma16(v, f, c2), fma16(v, g, d2)
        u, v = splat16(load_f32(x + 12)), splat16(load_f32(y + 12))
        f, g = load16(k + 3 * VECTOR), load16(m + 3 * VECTOR)
        a3, b3, c3, d3 = fma16(u, f, a3), fma16(u, g, b3), fma16(v, f, c3), fma16(v, g, d3)
    factor = splat16(scale)
    store16(q_scores, mul16(add16(add16(a0, a2), add16(a1, a3)), factor))
    store16(q_scores + VECTOR, mul16(add16(add16(b0, b2), add16(b1, b3)), factor))
    store16(r_scores, mul16(add16(add16(c0, c2), add16(c1, c3)), factor))
    store16(r_scores + VECTOR, mul16(add16(add16(d0, d2), add16(d1, d3)), factor))


@intrinsic
def multiply_values(typing: Any, acc: Any, weights: Any, row: Any) -> Any:
    """One weight of each of four queries, whose weights lie CHUNK floats apart, times 64 columns of one row."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, weights, row = args
        vectors = [_vector_at(builder, row, j * VECTOR) for j in range(4)]
        factors = [_number_at(builder, weights, I64(i * CHUNK * 4)) for i in range(SOME)]
        return _multiply_grid(builder, acc, factors, vectors)

    return Grid(Grid, types.int64, types.int64), generate


@intrinsic
def load_sums(typing: Any, address: Any, record: Any) -> Any:
    """64 columns of four sums that lie `record` bytes apart."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc = ir.Constant(context.get_value_type(Grid), ir.Undefined)
        for i in range(16):
            row = builder.add(args[0], builder.mul(args[1], I64(i // 4)))
            acc = builder.insert_value(acc, _vector_at(builder, row, i % 4 * VECTOR), i)
        return acc

    return Grid(types.int64, types.int64), generate


@intrinsic
def store_sums(typing: Any, acc: Any, address: Any, record: Any) -> Any:
    """The same the other way."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for i in range(16):
            row = builder.add(args[1], builder.mul(args[2], I64(i // 4)))
            place = builder.inttoptr(builder.add(row, I64(i % 4 * VECTOR)), POINTER)
            builder.store(builder.extract_value(args[0], i), place).align = 4
        return context.get_dummy_value()

    return types.void(Grid, types.int64, types.int64), generate


@jit
def add_values_of_four(weights: int, values: int, n_keys: int, head_dim: int, sums: int, record: int) -> None:
    """Add value rows, float32 [n_keys, head_dim], to the sums of four queries that lie `record` bytes apart.

    Whole blocks of 64 columns only; `add_values` does what is left.
    """
    for j in range(head_dim // 64):
        acc = load_sums(sums + j * 4 * VECTOR, record)
        for key in range(n_keys):
            acc = multiply_values(acc, weights + key * 4, values + (key * head_dim + j * 64) * 4)
        store_sums(acc, sums + j * 4 * VECTOR, record)


@jit
def add_values(
    p: int, r: int, values: int, n_keys: int, head_dim: int, first: int, p_out: int, r_out: int
) -> None:  # fmt: skip
    """Add columns `first`.. of value rows, float32 [n_keys, head_dim], weighted by p and by r, to two sums.

    `r_out` may be `p_out`.
    """
    blocks = head_dim // 64
    for j in range(first // 64, blocks):
        a, b = p_out + j * 4 * VECTOR, r_out + j * 4 * VECTOR
        a0, a1, a2, a3 = load16(a), load16(a + VECTOR), load16(a + 2 * VECTOR), load16(a + 3 * VECTOR)
        b0, b1, b2, b3 = load16(b), load16(b + VECTOR), load16(b + 2 * VECTOR), load16(b + 3 * VECTOR)
        for key in range(n_keys):
            row = values + (key * head_dim + j * 64) * 4
            u, v = splat16(load_f32(p + key * 4)), splat16(load_f32(r + key * 4))
            v0, v1, v2, v3 = load16(row), load16(row + VECTOR), load16(row + 2 * VECTOR), load16(row + 3 * VECTOR)
            a0, a1, a2, a3 = fma16(u, v0, a0), fma16(u, v1, a1), fma16(u, v2, a2), fma16(u, v3, a3)
            b0, b1, b2, b3 = fma16(v, v0, b0), fma16(v, v1, b1), fma16(v, v2, b2), fma16(v, v3, b3)
        store16(a, a0), store16(a + VECTOR, a1), store16(a + 2 * VECTOR, a2), store16(a + 3 * VECTOR, a3)
        store16(b, b0), store16(b + VECTOR, b1), store16(b + 2 * VECTOR, b2), store16(b + 3 * VECTOR, b3)
    for j in range(blocks * 4, head_dim // 16):
        a0, b0 = load16(p_out + j * VECTOR), load16(r_out + j * VECTOR)
        for key in range(n_keys):
            v0 = load16(values + key * head_dim * 4 + j * VECTOR)
            a0, b0 = fma16(splat16(load_f32(p + key * 4)), v0, a0), fma16(splat16(load_f32(r + key * 4)), v0, b0)
        store16(p_out + j * VECTOR, a0)
        store16(r_out + j * VECTOR, b0)
