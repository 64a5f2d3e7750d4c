"""The numerics contract in NumPy: each operation of the network with exactly the float operations of docs/numerics.md.

A device is right when its bits are these. float32 arrays go in and out; `fma` rounds once by way of float64 (the
product of two float32 is exact there, and the second rounding can differ from a true fused operation about once in
2^29). The last axis is the one that an operation works along; leading axes are tokens, heads or rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine.formats import FORMATS, GGMLType, dequantise, k_scales

F32 = np.float32
Floats = NDArray[np.float32]

BLOCK, SEGMENT_COLUMNS, CHUNK = 32, 256, 128
LEAST = 1e-36  # a block whose numbers are all under this counts as zeros: 127 / m may be infinite
NORM_PARTS, SCORE_PARTS, SUM_LANES = 64, 4, 16  # partial sums of a norm, of a score, of a softmax sum

LOG2_E, LN2_HIGH, LN2_LOW = F32(1.44269504088896341), F32(0.693359375), F32(-2.12194440e-4)
EXP_POLYNOMIAL = tuple(
    F32(c) for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
)
EXP_LOWEST, EXP_HIGHEST = F32(-87.0), F32(88.0)


def fma(a: Floats, b: Floats | np.float32, c: Floats | np.float32) -> Floats:
    """a * b + c with one rounding."""
    out: Floats = (a.astype(np.float64) * b + c).astype(F32)
    return out


def tree_sum(parts: Floats) -> Floats:
    """Fold the last axis (a power of two long): part i with part i + half, then halve again. [..., n] to [...]."""
    while parts.shape[-1] > 1:
        half = parts.shape[-1] // 2
        parts = parts[..., :half] + parts[..., half:]
    return parts[..., 0]


def exp(x: Floats) -> Floats:
    """e^x as 2^n e^r with a polynomial of degree 6 (Cephes expf); 0 below -87, and e^88 above 88."""
    clamped = np.clip(x, EXP_LOWEST, EXP_HIGHEST)
    n = np.rint(clamped * LOG2_E)
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, clamped))
    p = np.full_like(r, EXP_POLYNOMIAL[0])
    for coefficient in EXP_POLYNOMIAL[1:]:
        p = fma(p, r, coefficient)
    p = fma(p, r * r, r) + F32(1)
    return np.where(x < EXP_LOWEST, F32(0), np.ldexp(p, n.astype(np.int32))).astype(F32)


def rms_norm(x: Floats, weight: Floats, eps: float) -> Floats:
    """x / sqrt(mean(x^2) + eps) * weight. Element i is squared into partial sum i mod 64."""
    n = x.shape[-1]
    padded = np.zeros((*x.shape[:-1], -(-n // NORM_PARTS) * NORM_PARTS), F32)
    padded[..., :n] = x
    parts = np.zeros((*x.shape[:-1], NORM_PARTS), F32)
    for first in range(0, padded.shape[-1], NORM_PARTS):
        row = padded[..., first : first + NORM_PARTS]
        parts = fma(row, row, parts)
    mean = tree_sum(parts) / F32(n)
    factor = F32(1) / np.sqrt(mean + F32(eps))
    out: Floats = (x * factor[..., np.newaxis]) * weight
    return out


@dataclass(frozen=True)
class Quantised:
    """int8 activations in blocks of 32: values float32 [..., blocks, 32] (whole numbers), scales [..., blocks]."""

    values: Floats
    scales: Floats


def quantise(x: Floats) -> Quantised:
    """d = max|x| / 127 and x * (127 / max|x|), rounded to the nearest whole number, ties to even; 0 for tiny blocks."""
    blocks = x.reshape(*x.shape[:-1], -1, BLOCK)
    largest = np.abs(blocks).max(axis=-1)
    inverse = np.divide(F32(127), largest, out=np.zeros_like(largest), where=largest >= F32(LEAST))
    return Quantised(np.rint(blocks * inverse[..., np.newaxis]), largest / F32(127))


@dataclass(frozen=True)
class IntegerWeights:
    """A quantised matrix as the contract sees it: whole numbers [rows, blocks, 32], dw and m [rows, blocks]."""

    values: Floats
    scales: Floats
    minima: Floats | None


_UNIT_SCALES = np.array(
    [1] * 4 + [0] * 4 + [1] * 4, np.uint8
)  # eight scales of 1 and minima of 0, in k_scales' packing


def integer_weights(raw: NDArray[np.uint8], kind: GGMLType, n_columns: int) -> IntegerWeights:
    """Take a tensor's rows apart: dequantising with all scales set to one leaves the whole numbers.

    Q6_K keeps its int8 scales inside the whole numbers, since they multiply the integer sum.
    """
    blocks = np.ascontiguousarray(raw).reshape(-1).view(FORMATS[kind].layout).copy()
    names = blocks.dtype.names or ()
    per_block = FORMATS[kind].block // BLOCK
    d = np.repeat(blocks["d"].astype(F32)[:, np.newaxis], per_block, axis=1)
    m = np.repeat(blocks["m"].astype(F32)[:, np.newaxis], per_block, axis=1) if "m" in names else None
    if kind in (GGMLType.Q4_K, GGMLType.Q5_K):
        scale, minimum = k_scales(blocks["scales"])
        d, m = d * scale, -(m if m is not None else F32(0)) * minimum
        blocks["scales"] = _UNIT_SCALES
    blocks["d"] = 1
    if m is not None:
        blocks["m"] = 0
    values = dequantise(blocks.view(np.uint8), kind, n_columns).reshape(-1, n_columns // BLOCK, BLOCK)
    shape = values.shape[:2]
    return IntegerWeights(values, d.astype(F32).reshape(shape), None if m is None else m.astype(F32).reshape(shape))


def multiply(x: Floats, raw: NDArray[np.uint8], kind: GGMLType) -> Floats:
    """x [tokens, columns] times the transposed matrix in `raw` (rows of a GGUF tensor): [tokens, rows]."""
    n_columns = x.shape[-1]
    if FORMATS[kind].block == 1:
        return _multiply_floats(x, dequantise(raw, kind, n_columns))
    weights, activations = integer_weights(raw, kind, n_columns), quantise(x)
    sums = activations.values.sum(axis=-1)  # [tokens, blocks]
    total: Floats | None = None
    for first in range(0, n_columns // BLOCK, SEGMENT_COLUMNS // BLOCK):
        acc = np.zeros((len(x), len(weights.values)), F32)
        for block in range(first, min(first + SEGMENT_COLUMNS // BLOCK, n_columns // BLOCK)):
            isum = activations.values[:, block] @ weights.values[:, block].T  # exact: every partial sum is below 2^24
            dx = activations.scales[:, block, np.newaxis]
            acc = fma(isum * dx, weights.scales[:, block], acc)
            if weights.minima is not None:
                acc = fma(sums[:, block, np.newaxis] * dx, weights.minima[:, block], acc)
        total = acc if total is None else total + acc
    assert total is not None
    return total


def _multiply_floats(x: Floats, weights: Floats) -> Floats:
    """Column by column within a segment of 256, then segments in order."""
    total: Floats | None = None
    for first in range(0, x.shape[-1], SEGMENT_COLUMNS):
        acc = np.zeros((len(x), len(weights)), F32)
        for column in range(first, min(first + SEGMENT_COLUMNS, x.shape[-1])):
            acc = fma(np.broadcast_to(x[:, column, np.newaxis], acc.shape), weights[:, column], acc)
        total = acc if total is None else total + acc
    assert total is not None
    return total


def rotate(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """RoPE on halves: x [tokens, heads, head_dim], cos and sin [tokens, head_dim / 2]."""
    a, b = np.split(x, 2, axis=-1)
    c, s = np.broadcast_to(cos[:, np.newaxis], a.shape), np.broadcast_to(sin[:, np.newaxis], a.shape)
    return np.concatenate((fma(a, c, -(b * s)), fma(b, c, a * s)), axis=-1)


def silu_times(gate: Floats, up: Floats) -> Floats:
    """gate / (1 + exp(-gate)) * up."""
    out: Floats = gate / (F32(1) + exp(F32(0) - gate)) * up
    return out


def cached(x: Floats, kind: str) -> Floats:
    """What a cache of one kind ("f32", "f16", "q8_0") gives back of a key or value."""
    if kind == "f32":
        return x
    if kind == "f16":
        return x.astype(np.float16).astype(F32)
    blocks = quantise(x)
    scales = blocks.scales.astype(np.float16).astype(F32)
    out: Floats = (blocks.values * scales[..., np.newaxis]).reshape(x.shape)
    return out


def attend(q: Floats, keys: Floats, values: Floats) -> Floats:
    """One query [heads, head_dim] over all its keys and values [positions, heads, head_dim]: [heads, head_dim].

    Chunks of 128 keys, each with its own maximum, merged in order by online softmax.
    """
    scale = F32(q.shape[-1] ** -0.5)
    m: Floats | None = None
    for first in range(0, len(keys), CHUNK):
        k, v = keys[first : first + CHUNK], values[first : first + CHUNK]
        new_m, new_sum, new_out = _attend_chunk(q, k, v, scale)
        if m is None:
            m, total, out = new_m, new_sum, new_out
            continue
        top = np.maximum(m, new_m)
        a, b = exp(m - top), exp(new_m - top)
        m, total = top, fma(new_sum, b, total * a)
        out = fma(new_out, np.broadcast_to(b[:, np.newaxis], out.shape), out * a[:, np.newaxis])
    result: Floats = out / total[:, np.newaxis]
    return result


def _attend_chunk(q: Floats, k: Floats, v: Floats, scale: np.float32) -> tuple[Floats, Floats, Floats]:
    """Maximum score [heads], sum of exp(score - maximum) [heads], values weighted by it [heads, head_dim]."""
    parts = np.zeros((len(k), q.shape[0], SCORE_PARTS), F32)
    for d in range(0, q.shape[-1], SCORE_PARTS):
        parts = fma(np.broadcast_to(q[:, d : d + SCORE_PARTS], parts.shape), k[..., d : d + SCORE_PARTS], parts)
    scores = tree_sum(parts) * scale  # [keys, heads]
    m = scores.max(axis=0)
    weights = exp(scores - m)
    lanes = np.zeros((q.shape[0], SUM_LANES), F32)
    for first in range(0, len(k), SUM_LANES):
        part = weights[first : first + SUM_LANES].T
        lanes[:, : part.shape[1]] += part
    out = np.zeros(q.shape, F32)
    for key in range(len(k)):
        out = fma(np.broadcast_to(weights[key, :, np.newaxis], out.shape), v[key], out)
    return m, tree_sum(lanes), out
