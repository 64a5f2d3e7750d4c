"""Attention over the paged cache, one chunk of CHUNK keys at a time, and the merge of chunks in order.

A page holds CHUNK positions of every layer. For one (layer, KV head) it is, in order (q8_0 has the scales, others do
not):

    keys    [CHUNK / 16][head_dim][16]      a lane owns a key, so a score needs no sum across lanes
    scales  [CHUNK / 16][head_dim / 32][16] float16
    values  [CHUNK][head_dim]
    scales  [CHUNK][head_dim / 32]          float16

A chunk gives each query its maximum score m, the sum l of exp(score - m) and the values weighted by the same; chunks
are merged first to last by the usual online softmax. A query's chunks and their order depend on its position alone.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from app.engine.cpu.kernels.vectors import (
    F32X16,
    I32,
    abs16,
    add16,
    broadcast,
    div16,
    exp16,
    fma,
    fma16,
    intrinsic,
    jit,
    largest16,
    load16,
    load16_f16,
    load16_i8,
    load_f16,
    load_f32,
    load_i8,
    max16,
    mul16,
    round16,
    splat16,
    store16,
    store16_f16,
    store16_i32_as_i8,
    store_f16,
    store_f32,
    store_i8,
    sub16,
    sum16,
)
from app.engine.cpu.layout import CHUNK, KV_F16, KV_F32, TILE, WIDE

VECTOR = 64  # bytes of 16 float32
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
def element_bytes(kind: int) -> int:
    """Bytes of one cached number."""
    return 4 if kind == KV_F32 else (2 if kind == KV_F16 else 1)


@jit
def scale_bytes(kind: int, head_dim: int) -> int:
    """Bytes of the scales of CHUNK keys (or values) of one head."""
    return 0 if kind in (KV_F32, KV_F16) else CHUNK * (head_dim // 32) * 2


@jit
def store_key(kind: int, base: int, slot: int, head_dim: int, x: int) -> None:
    """Write one key (head_dim floats at x) into lane slot % 16 of its tile."""
    size = element_bytes(kind)
    tile, lane = slot // TILE, slot % TILE
    target = base + (tile * head_dim * TILE + lane) * size
    if kind == KV_F32:
        for d in range(head_dim):
            store_f32(target + d * TILE * 4, load_f32(x + d * 4))
    elif kind == KV_F16:
        for d in range(head_dim):
            store_f16(target + d * TILE * 2, load_f32(x + d * 4))
    else:
        scales = base + CHUNK * head_dim + tile * (head_dim // 32) * TILE * 2 + lane * 2
        for block in range(head_dim // 32):
            quantise_block(x + block * 128, x + block * 128, scales + block * TILE * 2)
            for d in range(block * 32, block * 32 + 32):
                # quantise_block left the 32 int8 packed at the start of the block's floats
                store_i8(target + d * TILE, load_i8(x + block * 128 + d % 32))


@jit
def store_value(kind: int, base: int, slot: int, head_dim: int, x: int) -> None:
    """Write one value row (head_dim floats at x)."""
    keys = CHUNK * head_dim * element_bytes(kind) + scale_bytes(kind, head_dim)
    target = base + keys + slot * head_dim * element_bytes(kind)
    if kind == KV_F32:
        for j in range(head_dim // 16):
            store16(target + j * VECTOR, load16(x + j * VECTOR))
    elif kind == KV_F16:
        for j in range(head_dim // 16):
            store16_f16(target + j * 32, load16(x + j * VECTOR))
    else:
        scales = base + keys + CHUNK * head_dim + slot * (head_dim // 32) * 2
        for block in range(head_dim // 32):
            quantise_block(x + block * 128, target + block * 32, scales + block * 2)


@jit
def quantise_block(x: int, quants: int, scale: int) -> None:
    """32 floats to int8 with a float16 scale, d = max|x| / 127. `quants` may be `x`."""
    low, high = load16(x), load16(x + VECTOR)
    largest = largest16(max16(abs16(low), abs16(high)))
    inverse = types.float32(0.0)
    if largest > types.float32(0.0):
        inverse = types.float32(127.0) / largest
    factor = splat16(inverse)
    store16_i32_as_i8(quants, round16(mul16(low, factor)))
    store16_i32_as_i8(quants + 16, round16(mul16(high, factor)))
    store_f16(scale, largest / types.float32(127.0))


@jit
def load_key_tile(kind: int, base: int, tile: int, head_dim: int, out: int) -> None:
    """16 keys as float32 [head_dim, 16]."""
    source = base + tile * head_dim * TILE * element_bytes(kind)
    if kind == KV_F32:
        for d in range(head_dim):
            store16(out + d * VECTOR, load16(source + d * VECTOR))
    elif kind == KV_F16:
        for d in range(head_dim):
            store16(out + d * VECTOR, load16_f16(source + d * 32))
    else:
        scales = base + CHUNK * head_dim + tile * (head_dim // 32) * TILE * 2
        for d in range(head_dim):
            scale = load16_f16(scales + (d // 32) * TILE * 2)
            store16(out + d * VECTOR, mul16(load16_i8(source + d * TILE), scale))


@jit
def load_value_tile(kind: int, base: int, tile: int, head_dim: int, n_keys: int, out: int) -> None:
    """The first n_keys of 16 value rows as float32 [16, head_dim]."""
    keys = CHUNK * head_dim * element_bytes(kind) + scale_bytes(kind, head_dim)
    source = base + keys + tile * TILE * head_dim * element_bytes(kind)
    if kind == KV_F32:
        for j in range(n_keys * head_dim // 16):
            store16(out + j * VECTOR, load16(source + j * VECTOR))
    elif kind == KV_F16:
        for j in range(n_keys * head_dim // 16):
            store16(out + j * VECTOR, load16_f16(source + j * 32))
    else:
        scales = base + keys + CHUNK * head_dim + tile * TILE * (head_dim // 32) * 2
        for j in range(n_keys * head_dim // 16):
            scale = splat16(load_f16(scales + (j // 2) * 2))
            store16(out + j * VECTOR, mul16(load16_i8(source + j * 16), scale))


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
    record = (head_dim + 2) * 4
    most = min(CHUNK, first + count - chunk * CHUNK)  # keys that the last token sees
    n_tiles, n_queries = (most + TILE - 1) // TILE, count * group
    for tile in range(0, n_tiles, 2):
        load_key_tile(kind, base, tile, head_dim, tile_buffer)
        if tile + 1 < n_tiles:
            load_key_tile(kind, base, tile + 1, head_dim, tile_buffer + head_dim * VECTOR)
        for i in range(0, n_queries, 2):
            other = min(i + 1, n_queries - 1)  # an odd number of queries: the last one is done twice
            if first + other // group < chunk * CHUNK + tile * TILE:
                continue
            score_pair(
                queries + (i // group) * query_stride + (i % group) * head_dim * 4,
                queries + (other // group) * query_stride + (other % group) * head_dim * 4,
                tile_buffer, head_dim, scale, scores + i * CHUNK * 4 + tile * VECTOR,
                scores + other * CHUNK * 4 + tile * VECTOR,
            )  # fmt: skip
    for t in range(count):
        n_keys = min(CHUNK, first + t + 1 - chunk * CHUNK)
        if n_keys <= 0:
            continue
        tiles = (n_keys + TILE - 1) // TILE
        for head in range(group):
            i = t * group + head
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
    for tile in range(n_tiles):
        load_value_tile(kind, base, tile, head_dim, min(TILE, most - tile * TILE), tile_buffer)
        for t in range(count):
            n_keys = min(TILE, first + t + 1 - chunk * CHUNK - tile * TILE)
            if n_keys <= 0:
                continue
            for head in range(0, group, 2):
                i = t * group + head
                other = i + 1 if head + 1 < group else i
                add_values(
                    scores + i * CHUNK * 4 + tile * VECTOR, scores + other * CHUNK * 4 + tile * VECTOR, tile_buffer,
                    n_keys, head_dim, parts + i * record, parts + other * record,
                )  # fmt: skip


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


@jit
def add_values(p: int, r: int, values: int, n_keys: int, head_dim: int, p_out: int, r_out: int) -> None:
    """Add value rows, float32 [n_keys, head_dim], weighted by p and by r, to two sums; `r_out` may be `p_out`."""
    blocks = head_dim // 64
    for j in range(blocks):
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
    for i in range(head_dim + 2):
        store_f32(target + i * 4, load_f32(source + i * 4))


@jit
def finish(state: int, head_dim: int, out: int) -> None:
    """Divide the weighted values by the sum."""
    total = splat16(load_f32(state + head_dim * 4 + 4))
    for j in range(head_dim // 16):
        store16(out + j * VECTOR, div16(load16(state + j * VECTOR), total))
