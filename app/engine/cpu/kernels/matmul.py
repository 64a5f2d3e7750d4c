"""Products of packed weights with activations, one group of rows at a time, for steps of any size.

A lane owns a row, so a group's `lanes` sums grow side by side and nothing is added across lanes. The order of the float
operations of a row is the numerics contract (docs/numerics.md): within a segment of 8 blocks

    acc = fma(float(isum) * dx, dw, acc)
    acc = fma(float(xsum) * dx, m, acc)      for formats with a minimum

block by block, then segment sums added in order. It does not depend on the number of tokens: weights are unpacked
once a block and used for each token in turn.

Activations are laid out in the order of that walk: int8 [blocks, tokens, 32], scales float32 [blocks, tokens], sums
int32 [blocks, tokens, 2] (of the two halves of a block), float(xsum) * dx as float32 [blocks, tokens], and for float
weights float32 [blocks, tokens, 32]. `x` is the tuple of these five addresses. `acc` is scratch of float32 [tokens,
lanes].
"""

from __future__ import annotations

from typing import Any

from app.engine.cpu.isa import InstructionSet
from app.engine.cpu.kernels.dot import SIGNED, define_dot, shift_of
from app.engine.cpu.kernels.scalars import load_f32, load_i32, prefetch
from app.engine.cpu.kernels.unpack import Lanes, Reader
from app.engine.cpu.kernels.vectors import jit
from app.engine.cpu.layout import BLOCK, CACHE_LINE, SEGMENT

AHEAD = 4096  # bytes: how far before its use a line of the largest plane is asked for, and the others earlier still


def define_quantised(isa: InstructionSet, reader: Reader) -> Any:
    """The product of every format whose block has one scale."""
    lanes, width = Lanes(isa), isa.lanes
    limit = SIGNED if reader.bits == 8 else 2**reader.bits - 1
    dot, shift = define_dot(isa, limit), reader.offset + shift_of(isa, limit)
    planes_of, weights_of, scale_of, minimum_of = reader.planes, reader.weights, reader.scale, reader.minimum
    has_min, block_bytes = reader.has_min, reader.block_bytes
    load, store, splat, splat_int = lanes.load, lanes.store, lanes.splat, lanes.splat_int
    fma, add, mul, to_float = lanes.fma, lanes.add, lanes.mul, lanes.to_float

    @jit
    def kernel(group: int, n_blocks: int, x: Any, n_tokens: int, out: int, stride: int, acc: int) -> None:
        planes = planes_of(group, n_blocks)
        for first in range(0, n_blocks, SEGMENT):
            for t in range(n_tokens):
                store(acc + t * 4 * width, splat(0.0))
            for block in range(first, min(first + SEGMENT, n_blocks)):
                for line in range(0, block_bytes, CACHE_LINE):
                    prefetch(planes[0] + block * block_bytes + AHEAD + line)
                weights = weights_of(planes, block)
                dw = scale_of(planes, block)
                m = minimum_of(planes, block) if has_min else dw
                for t in range(n_tokens):
                    row = block * n_tokens + t
                    start = 0
                    if shift != 0:
                        start = -shift * (load_i32(x[2] + row * 8) + load_i32(x[2] + row * 8 + 4))
                    isum = dot(weights, x[0] + row * BLOCK, splat_int(start))
                    dx = splat(load_f32(x[1] + row * 4))
                    total = fma(mul(to_float(isum), dx), dw, load(acc + t * 4 * width))
                    if has_min:
                        total = fma(splat(load_f32(x[3] + row * 4)), m, total)
                    store(acc + t * 4 * width, total)
            for t in range(n_tokens):
                total = load(acc + t * 4 * width)
                store(out + t * stride, total if first == 0 else add(load(out + t * stride), total))

    return kernel


def define_q6_k(isa: InstructionSet, reader: Reader) -> Any:
    """Q6_K: an int8 scale for each half block of 16 multiplies inside the integer sum.

    That sum is at most 2 * 16 * 32 * 127 * 128 < 2^24, and so are its parts: float32 holds them exactly, and multiplies
    faster than int32. One part is added to +0, so that a sum of zeros is +0 as that of integers is.
    """
    lanes, width = Lanes(isa), isa.lanes
    dot, offset, block_bytes = define_dot(isa, 63), reader.offset, reader.block_bytes
    planes_of, weights_of, scale_of = reader.planes, reader.weights, reader.scale
    load, store, load_ints, to_float = lanes.load, lanes.store, lanes.load_i8_ints, lanes.to_float
    splat, splat_int, fma, add, mul = lanes.splat, lanes.splat_int, lanes.fma, lanes.add, lanes.mul

    @jit
    def kernel(group: int, n_blocks: int, x: Any, n_tokens: int, out: int, stride: int, acc: int) -> None:
        planes = planes_of(group, n_blocks)
        for first in range(0, n_blocks, SEGMENT):
            for t in range(n_tokens):
                store(acc + t * 4 * width, splat(0.0))
            for block in range(first, first + SEGMENT):
                for line in range(0, block_bytes, CACHE_LINE):
                    prefetch(planes[0] + block * block_bytes + AHEAD + line)
                w0, w1, w2, w3, w4, w5, w6, w7 = weights_of(planes, block)
                d = scale_of(planes, block)
                scale0 = to_float(load_ints(planes[3] + block * 2 * width))
                scale1 = to_float(load_ints(planes[3] + block * 2 * width + width))
                for t in range(n_tokens):
                    row = block * n_tokens + t
                    start0 = splat_int(-offset * load_i32(x[2] + row * 8))
                    start1 = splat_int(-offset * load_i32(x[2] + row * 8 + 4))
                    half0 = to_float(dot((w0, w1, w2, w3), x[0] + row * BLOCK, start0))
                    half1 = to_float(dot((w4, w5, w6, w7), x[0] + row * BLOCK + 16, start1))
                    isum = fma(half0, scale0, fma(half1, scale1, splat(0.0)))
                    scaled = mul(isum, splat(load_f32(x[1] + row * 4)))
                    store(acc + t * 4 * width, fma(scaled, d, load(acc + t * 4 * width)))
            for t in range(n_tokens):
                total = load(acc + t * 4 * width)
                store(out + t * stride, total if first == 0 else add(load(out + t * stride), total))

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
                    activations = x[4] + (block * n_tokens + t) * BLOCK * 4
                    for column in range(BLOCK):
                        weights = load_weights(group + block * block_bytes + column * n_bytes * width)
                        total = fma(splat(load_f32(activations + column * 4)), weights, total)
                store(out + t * stride, total if first == 0 else add(load(out + t * stride), total))

    return kernel
