"""Attention over the paged cache, one chunk of CHUNK keys at a time, and the merge of chunks in order.

A chunk gives each query its maximum score m, the sum l of exp(score - m) and the values weighted by the same; chunks
are merged first to last by the usual online softmax. A query's chunks and their order depend on its position alone.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from app.engine.cpu.kernels.attention_products import (
    MANY,
    SOME,
    VECTOR,
    add_values,
    add_values_of_four,
    score_many,
    score_pair,
)  # fmt: skip
from app.engine.cpu.kernels.kv_page import load_key_tile, load_value_tile
from app.engine.cpu.kernels.scalars import fma, load_f32, store_f32
from app.engine.cpu.kernels.vectors import F32X16, I32, broadcast, intrinsic, jit
from app.engine.cpu.kernels.wide import (
    add16,
    div16,
    exp16,
    fma16,
    largest16,
    load16,
    max16,
    mul16,
    splat16,
    store16,
    sub16,
    sum16,
)  # fmt: skip
from app.engine.cpu.layout import CHUNK, TILE, WIDE

LOWEST = -3.0e38  # below every score


@intrinsic
def keep_first(typing: Any, value: Any, count: Any) -> Any:
    """Lanes before `count` as they are, the others LOWEST."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.Constant(ir.VectorType(I32, WIDE), list(range(WIDE)))
        limit = broadcast(builder, builder.trunc(args[1], I32), WIDE)
        kept = builder.icmp_signed("<", lanes, limit)
        return builder.select(kept, args[0], ir.Constant(F32X16.llvm, [LOWEST] * WIDE))

    return F32X16(F32X16, types.int64), generate


@jit
def attend_chunk(
    kind: int, base: int, chunk: int, queries: int, query_stride: int, group: int, first: int, count: int,
    head_dim: int, scale: float, tile_buffer: int, scores: int, parts: int,
) -> None:  # fmt: skip
    """The queries of one KV head against the keys of one chunk.

    `count` tokens, the first at position `first`, with `group` query heads each: query i = token * group + head is at
    queries + token * query_stride + head * head_dim floats. Token t sees the keys up to its own position. Query i's
    result goes to parts[i]: head_dim weighted values, maximum, sum. Queries that see no key of the chunk are left
    alone.
    """
    start = chunk * CHUNK
    most = min(CHUNK, first + count - start)  # keys that the last token sees
    score_chunk(
        kind, base, queries, query_stride, group, first - start, count, most, head_dim, scale, tile_buffer, scores
    )  # fmt: skip
    weigh_chunk(group, first - start, count, head_dim, scores, parts)
    add_chunk(kind, base, group, first - start, count, most, head_dim, tile_buffer, scores, parts)


@jit
def score_chunk(
    kind: int, base: int, queries: int, query_stride: int, group: int, first: int, count: int, most: int,
    head_dim: int, scale: float, tile_buffer: int, scores: int,
) -> None:  # fmt: skip
    """Scores [queries, CHUNK], two tiles of keys at a time; `first` counts from the chunk's first key."""
    n_queries = count * group

    def at(i: int) -> int:
        return queries + (i // group) * query_stride + (i % group) * head_dim * 4

    for tile in range(0, (most + TILE - 1) // TILE, 2):
        load_key_tile(kind, base, tile, head_dim, tile_buffer)
        if (tile + 1) * TILE < most:
            load_key_tile(kind, base, tile + 1, head_dim, tile_buffer + head_dim * VECTOR)
        here = scores + tile * VECTOR
        if n_queries >= MANY:
            for i in range(0, n_queries, MANY):
                q = min(i, n_queries - MANY)  # the last ones may be done twice
                if first + (q + MANY - 1) // group >= tile * TILE:
                    eight = (at(q), at(q + 1), at(q + 2), at(q + 3), at(q + 4), at(q + 5), at(q + 6), at(q + 7))
                    score_many(eight, tile_buffer, head_dim, scale, here + q * CHUNK * 4)
        else:
            for i in range(0, n_queries, 2):
                other = min(i + 1, n_queries - 1)
                if first + other // group >= tile * TILE:
                    score_pair(
                        at(i), at(other), tile_buffer, head_dim, scale, here + i * CHUNK * 4, here + other * CHUNK * 4
                    )  # fmt: skip


@jit
def weigh_chunk(group: int, first: int, count: int, head_dim: int, scores: int, parts: int) -> None:
    """Scores become weights exp(score - m); m, their sum, and zeros for the values go to the parts."""
    record = (head_dim + 2) * 4
    for i in range(max(-first, 0) * group, count * group):
        n_keys = min(CHUNK, first + i // group + 1)
        tiles = (n_keys + TILE - 1) // TILE
        row = scores + i * CHUNK * 4
        highest = splat16(LOWEST)
        for tile in range(tiles):
            highest = max16(highest, keep_first(load16(row + tile * VECTOR), n_keys - tile * TILE))
        m = largest16(highest)
        total = splat16(0.0)
        for tile in range(tiles):
            weight = exp16(sub16(keep_first(load16(row + tile * VECTOR), n_keys - tile * TILE), splat16(m)))
            store16(row + tile * VECTOR, weight)
            total = add16(total, weight)
        store_f32(parts + i * record + head_dim * 4, m)
        store_f32(parts + i * record + head_dim * 4 + 4, sum16(total))
        for j in range(head_dim // 16):
            store16(parts + i * record + j * VECTOR, splat16(0.0))


@jit
def add_chunk(
    kind: int, base: int, group: int, first: int, count: int, most: int, head_dim: int, tile_buffer: int, scores: int,
    parts: int,
) -> None:  # fmt: skip
    """Weighted values, a tile at a time, of as many queries at a time as see all of it."""
    record, n_queries, left_over = (head_dim + 2) * 4, count * group, head_dim // 64 * 64
    for tile in range((most + TILE - 1) // TILE):
        load_value_tile(kind, base, tile, head_dim, min(TILE, most - tile * TILE), tile_buffer)
        weights = scores + tile * VECTOR
        i = 0
        while i < n_queries:
            n_keys = min(TILE, first + i // group + 1 - tile * TILE)
            p, out = weights + i * CHUNK * 4, parts + i * record
            if n_keys == TILE and i + SOME <= n_queries:
                add_values_of_four(p, tile_buffer, n_keys, head_dim, out, record)
                if left_over < head_dim:
                    for pair in range(0, SOME, 2):
                        q, sums = p + pair * CHUNK * 4, out + pair * record
                        add_values(q, q + CHUNK * 4, tile_buffer, n_keys, head_dim, left_over, sums, sums + record)
                i += SOME
            else:
                more = 1 if i % group + 1 < group else 0  # the next query, where it sees the same keys
                if n_keys > 0:
                    add_values(p, p + more * CHUNK * 4, tile_buffer, n_keys, head_dim, 0, out, out + more * record)
                i += 1 + more


@jit
def merge(state: int, part: int, head_dim: int) -> None:
    """Fold the next chunk's result into the state of the chunks before it."""
    old, new = load_f32(state + head_dim * 4), load_f32(part + head_dim * 4)
    m = max(old, new)
    a = exp_scalar(old - m)
    b = exp_scalar(new - m)
    store_f32(state + head_dim * 4, m)
    old_sum, new_sum = load_f32(state + head_dim * 4 + 4), load_f32(part + head_dim * 4 + 4)
    store_f32(state + head_dim * 4 + 4, fma(new_sum, b, old_sum * a))
    for j in range(head_dim // 16):
        kept = mul16(load16(state + j * VECTOR), splat16(a))
        store16(state + j * VECTOR, fma16(load16(part + j * VECTOR), splat16(b), kept))


@jit
def exp_scalar(x: float) -> float:
    """exp as the vectors compute it."""
    return largest16(exp16(splat16(x)))


@jit
def copy_part(target: int, source: int, head_dim: int) -> None:
    """The first chunk's result is the state."""
    for j in range(head_dim // WIDE):
        store16(target + j * VECTOR, load16(source + j * VECTOR))
    for i in range(head_dim, head_dim + 2):
        store_f32(target + i * 4, load_f32(source + i * 4))


@jit
def finish(state: int, head_dim: int, out: int) -> None:
    """Divide the weighted values by the sum."""
    total = splat16(load_f32(state + head_dim * 4 + 4))
    for j in range(head_dim // 16):
        store16(out + j * VECTOR, div16(load16(state + j * VECTOR), total))
