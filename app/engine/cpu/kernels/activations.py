"""Row operations between the matrix products: RMSNorm, quantisation to int8, RoPE. Rows are float32 at raw addresses.

Sums use the fixed partial sums and the fixed tree of docs/numerics.md, so they do not depend on who computes them.
"""

from __future__ import annotations

from math import sqrt

from numba.core import types

from app.engine.cpu.kernels.scalars import fma, load_f32, store_f32, store_i32
from app.engine.cpu.kernels.vectors import jit
from app.engine.cpu.kernels.wide import (
    abs16,
    add16,
    div16,
    exp16,
    fma16,
    largest16,
    load16,
    max16,
    mul16,
    round16,
    splat16,
    store16,
    store16_i32_as_i8,
    sub16,
    sum16,
    sum16_i32,
)
from app.engine.cpu.layout import BLOCK, LEAST

VECTOR = 64  # bytes of 16 float32


@jit
def rms_norm(x: int, weight: int, n: int, eps: float, out: int) -> None:
    """out = x / sqrt(mean(x^2) + eps) * weight, for one row of n floats (n a multiple of 16). `out` may be `x`.

    Vector j of 16 floats goes to partial sum j mod 4; the four are added as (0 + 2) + (1 + 3).
    """
    zero = splat16(0.0)
    s0, s1, s2, s3 = zero, zero, zero, zero
    for j in range(0, n // 16, 4):
        v = load16(x + j * VECTOR)
        s0 = fma16(v, v, s0)
        if j + 1 < n // 16:
            v = load16(x + (j + 1) * VECTOR)
            s1 = fma16(v, v, s1)
        if j + 2 < n // 16:
            v = load16(x + (j + 2) * VECTOR)
            s2 = fma16(v, v, s2)
        if j + 3 < n // 16:
            v = load16(x + (j + 3) * VECTOR)
            s3 = fma16(v, v, s3)
    total = sum16(add16(add16(s0, s2), add16(s1, s3)))
    mean = total / types.float32(n)
    factor = splat16(types.float32(1.0) / types.float32(sqrt(mean + types.float32(eps))))
    for j in range(n // 16):
        scaled = mul16(load16(x + j * VECTOR), factor)
        store16(out + j * VECTOR, mul16(scaled, load16(weight + j * VECTOR)))


@jit
def quantise(x: int, n: int, t: int, n_tokens: int, quants: int, scales: int, sums: int, scaled_sums: int) -> None:
    """Row t of n floats to int8 blocks of 32 with d = max|x| / 127, in the layout that `matmul` walks."""
    for block in range(n // BLOCK):
        low, high = load16(x + block * 2 * VECTOR), load16(x + block * 2 * VECTOR + VECTOR)
        largest = largest16(max16(abs16(low), abs16(high)))
        inverse = types.float32(0.0)
        if largest >= types.float32(LEAST):
            inverse = types.float32(127.0) / largest
        factor = splat16(inverse)
        q_low, q_high = round16(mul16(low, factor)), round16(mul16(high, factor))
        row = block * n_tokens + t
        store16_i32_as_i8(quants + row * BLOCK, q_low)
        store16_i32_as_i8(quants + row * BLOCK + 16, q_high)
        scale = largest / types.float32(127.0)
        low_sum, high_sum = sum16_i32(q_low), sum16_i32(q_high)
        store_f32(scales + row * 4, scale)
        store_i32(sums + row * 8, low_sum)
        store_i32(sums + row * 8 + 4, high_sum)
        store_f32(scaled_sums + row * 4, types.float32(low_sum + high_sum) * scale)


@jit
def place_floats(x: int, n: int, t: int, n_tokens: int, floats: int) -> None:
    """Row t of n floats into the block-major layout that float weights are multiplied with."""
    for block in range(n // BLOCK):
        target = floats + (block * n_tokens + t) * BLOCK * 4
        store16(target, load16(x + block * 2 * VECTOR))
        store16(target + VECTOR, load16(x + block * 2 * VECTOR + VECTOR))


@jit
def add_row(x: int, other: int, n: int) -> None:
    """x += other, for n floats (n a multiple of 8 whole rows of a matrix group)."""
    for i in range(n):
        store_f32(x + i * 4, load_f32(x + i * 4) + load_f32(other + i * 4))


@jit
def rotate(x: int, cos: int, sin: int, half: int) -> None:
    """RoPE on one head in place: the pair (x[i], x[i + half]) turns by the angle of entry i of the tables."""
    minus_one, vectors = splat16(-1.0), half // 16
    for j in range(vectors):
        at, further = x + j * VECTOR, x + half * 4 + j * VECTOR
        u, v, f, g = load16(at), load16(further), load16(cos + j * VECTOR), load16(sin + j * VECTOR)
        store16(at, fma16(u, f, mul16(mul16(v, g), minus_one)))
        store16(further, fma16(v, f, mul16(u, g)))
    for i in range(vectors * 16, half):
        a, b = load_f32(x + i * 4), load_f32(x + (i + half) * 4)
        c, s = load_f32(cos + i * 4), load_f32(sin + i * 4)
        store_f32(x + i * 4, fma(a, c, -(b * s)))
        store_f32(x + (i + half) * 4, fma(b, c, a * s))


@jit
def silu_times(gate: int, up: int, n: int, out: int) -> None:
    """out = gate / (1 + exp(-gate)) * up, for n floats, n a multiple of 16."""
    one, zero = splat16(1.0), splat16(0.0)
    for j in range(n // 16):
        g = load16(gate + j * VECTOR)
        activated = div16(g, add16(one, exp16(sub16(zero, g))))
        store16(out + j * VECTOR, mul16(activated, load16(up + j * VECTOR)))
