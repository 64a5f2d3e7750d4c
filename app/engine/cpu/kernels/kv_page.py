"""The paged KV cache: how a key and a value are stored, and how 16 of them are read.

A page holds CHUNK positions of every layer. For one (layer, KV head) it is, in order (q8_0 has the scales, others do
not):

    keys    [CHUNK / 16][head_dim][16]      a lane owns a key, so a score needs no sum across lanes
    scales  [CHUNK / 16][head_dim / 32][16] float16
    values  [CHUNK][head_dim]
    scales  [CHUNK][head_dim / 32]          float16
"""

from __future__ import annotations

from numba.core import types

from app.engine.cpu.kernels.scalars import (
    load_f16,
    load_f32,
    load_i8,
    prefetch,
    store_f16,
    store_f32,
    store_i8,
)
from app.engine.cpu.kernels.vectors import jit
from app.engine.cpu.kernels.wide import (
    abs16,
    largest16,
    load16,
    load16_f16,
    load16_i8,
    max16,
    mul16,
    round16,
    splat16,
    store16,
    store16_f16,
    store16_i32_as_i8,
)  # fmt: skip
from app.engine.cpu.layout import CHUNK, KV_F16, KV_F32, LEAST, TILE

VECTOR = 64  # bytes of 16 float32
AHEAD = 8192  # bytes between what is read and what is asked for; the values follow the keys


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
    if largest >= types.float32(LEAST):
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
        for d in range(0, head_dim, 2):
            prefetch(source + d * 32 + AHEAD)
            store16(out + d * VECTOR, load16_f16(source + d * 32))
            store16(out + (d + 1) * VECTOR, load16_f16(source + (d + 1) * 32))
    else:
        scales = base + CHUNK * head_dim + tile * (head_dim // 32) * TILE * 2
        for d in range(head_dim):
            prefetch(source + d * TILE + AHEAD)
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
        for j in range(0, n_keys * head_dim // 16, 2):
            prefetch(source + j * 32 + AHEAD)
            store16(out + j * VECTOR, load16_f16(source + j * 32))
            store16(out + (j + 1) * VECTOR, load16_f16(source + (j + 1) * 32))
    else:
        scales = base + keys + CHUNK * head_dim + tile * TILE * (head_dim // 32) * 2
        for j in range(n_keys * head_dim // 16):
            prefetch(source + j * 16 + AHEAD)
            scale = splat16(load_f16(scales + (j // 2) * 2))
            store16(out + j * VECTOR, mul16(load16_i8(source + j * 16), scale))
