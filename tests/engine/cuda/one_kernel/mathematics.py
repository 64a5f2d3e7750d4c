"""The operations of the network in float64, each with how far float32 in the order of docs/numerics.md may be from it.

A bound counts roundings: a number that went through k of them is off by at most k U of what was added up on the way, in
magnitudes. What is rounded to int8 or to a narrower float adds half a step of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.formats import FORMATS, GGMLType, dequantise
from app.engine.numerics import integer_weights

F64 = NDArray[np.float64]

U = 2.0**-24 * (1 + 1e-5)  # of one rounding to float32; the rest is for products of two such errors
SMALLEST = 2.0**-150  # of a rounding among denormals
EXP = 2.4e-7  # of exp, relative (tests/engine/test_numerics.py)
LEAST = 1e-36  # blocks under this count as zeros


@dataclass(frozen=True)
class About:
    """A number, or an array of them, and how far from it float32 may be."""

    value: F64
    bound: F64

    def __getitem__(self, index: Any) -> About:
        return About(self.value[index], self.bound[index])

    def rounded(self) -> About:
        """Once more to float32."""
        return About(self.value, self.bound + U * np.abs(self.value) + SMALLEST)


def exactly(x: NDArray[Any]) -> About:
    value = x.astype(np.float64)
    return About(value, np.zeros_like(value))


def add(a: About, b: About) -> About:
    return About(a.value + b.value, a.bound + b.bound).rounded()


def rms_norm(x: About, weight: NDArray[np.float32], eps: float, parts: int = 64) -> About:
    """n/64 squares a partial sum, six additions, the mean and eps; a root halves that. Root, 1/root, two products."""
    n = x.value.shape[-1]
    factor = 1 / np.sqrt((x.value**2).mean(axis=-1, keepdims=True) + eps)
    value = x.value * factor * weight
    relative = ((-(-n // parts) + 8) / 2 + 4) * U
    own = x.bound * factor * np.abs(weight)
    through_the_mean = np.abs(value) * (np.abs(x.value) * x.bound).mean(axis=-1, keepdims=True) * factor**2
    return About(value, relative * np.abs(value) + own + through_the_mean)


def rotate(x: About, cos: F64, sin: F64) -> About:
    """x [tokens, heads, head_dim], cos and sin [tokens, head_dim / 2]: a product and a fused one."""
    cos, sin = cos[:, np.newaxis], sin[:, np.newaxis]
    (a, b), (ea, eb) = np.split(x.value, 2, axis=-1), np.split(x.bound, 2, axis=-1)
    c, s = np.abs(cos), np.abs(sin)
    return About(
        np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1),
        np.concatenate((ea * c + eb * s + 2 * U * (np.abs(a) * c + np.abs(b) * s),
                        eb * c + ea * s + 2 * U * (np.abs(b) * c + np.abs(a) * s)), axis=-1),
    )  # fmt: skip


def silu_times(gate: About, up: About) -> About:
    """exp, a sum, a division and a product; the slope of SiLU is below 1.1."""
    with np.errstate(over="ignore"):
        silu = gate.value / (1 + np.exp(-gate.value))
    value = silu * up.value
    carried = 1.1 * gate.bound * np.abs(up.value) + np.abs(silu) * up.bound
    return About(value, (EXP + 3 * U) * np.abs(value) + carried + 1e-36)


# ---------------------------------------------------------------------------------------------- int8 and products


@dataclass(frozen=True)
class Int8:
    """Rows [tokens, blocks, 32] as whole numbers and scales [tokens, blocks], the scales known to `relative`.

    `doubt`: the numbers so close to a half that float32 may round them to the other side.
    """

    q: F64
    d: F64
    relative: float
    doubt: NDArray[np.bool_]


def quantised(x: About) -> Int8:
    """Two roundings on the way to a whole number below 128, and one to the scale."""
    blocks, bound = (part.reshape(len(part), -1, 32) for part in (x.value, x.bound))
    largest = np.abs(blocks).max(axis=-1, keepdims=True)
    steps = np.divide(127 * blocks, largest, out=np.zeros_like(blocks), where=largest >= LEAST)
    relative = float(np.divide(bound, np.abs(blocks), out=np.zeros_like(bound), where=blocks != 0).max())
    doubt = np.abs(np.abs(steps - np.floor(steps)) - 0.5) <= 127 * (2 * relative + 2 * U)
    return Int8(np.rint(steps), largest[..., 0] / 127, relative + U, doubt)


class Weights:
    """A matrix of a file, rows of its bytes: float64 `values` [rows, columns]."""

    def __init__(self, raw: NDArray[np.uint8], kind: GGMLType, columns: int) -> None:
        self.raw, self.kind, self.columns = raw, kind, columns
        self.is_float = FORMATS[kind].block == 1
        if self.is_float:
            self.values = dequantise(raw, kind, columns).astype(np.float64)
            return
        parts = integer_weights(raw, kind, columns)
        self.whole, self.scales = parts.values.astype(np.float64), parts.scales.astype(np.float64)
        self.minima = np.zeros_like(self.scales) if parts.minima is None else parts.minima.astype(np.float64)
        self.has_minima = parts.minima is not None
        values = self.whole * self.scales[..., np.newaxis] + self.minima[..., np.newaxis]
        self.values = values.reshape(-1, columns)

    def __len__(self) -> int:
        return len(self.values)


def product(x: About, x8: Int8, weights: Weights) -> About:
    """Rows times a matrix, [tokens, rows].

    A segment adds 256 products, or 8 blocks with an integer sum each (16 terms with minima); then come the segments.
    """
    segments = -(-weights.columns // 256)
    if weights.is_float:
        size = np.abs(x.value) @ np.abs(weights.values).T
        return About(x.value @ weights.values.T, (256 + segments) * U * size + x.bound @ np.abs(weights.values).T)
    rows = (x8.q * x8.d[..., np.newaxis]).reshape(len(x8.q), -1)
    sums = np.abs(np.einsum("tbi,rbi->trb", x8.q, weights.whole))
    size = np.einsum("trb,tb,rb->tr", sums, x8.d, np.abs(weights.scales))
    size += np.einsum("tb,tb,rb->tr", np.abs(x8.q.sum(axis=-1)), x8.d, np.abs(weights.minima))
    roundings = 1 + (16 if weights.has_minima else 8) + segments
    doubtful = (x8.doubt * x8.d[..., np.newaxis]).reshape(len(rows), -1) @ np.abs(weights.values).T
    return About(rows @ weights.values.T, (roundings * U + x8.relative) * size + doubtful)


# ---------------------------------------------------------------------------------------------- attention


def attend(q: About, keys: F64, values: F64) -> About:
    """One query [head_dim] over all keys and values [positions, head_dim], in chunks of 128.

    A weight is off by its score's error, by the maximum's, and by exp's; so is the sum that it is divided by.
    """
    n, dim = keys.shape
    scale = dim**-0.5
    scores = keys @ q.value * scale
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    score_errors = scale * (np.abs(keys) @ ((dim / 4 + 5) * U * np.abs(q.value) + q.bound))
    spread = float(scores.max() - scores.min())
    chunks = -(-n // 128)
    per_weight = 2 * float(score_errors.max()) + (1 + chunks) * U * spread + EXP
    roundings = 128 + 1 + 12 + chunks * (2 + 2 * (1 + EXP / U)) + 1
    size = weights @ np.abs(values)
    return About(weights @ values, (2 * per_weight + roundings * U) * size)


# ---------------------------------------------------------------------------------------------- narrower numbers


def cached(x: About, kind: str) -> About:
    """A key or a value as the cache keeps it: half a step of its type away."""
    size = np.abs(x.value) + x.bound
    if kind == "f32":
        return x
    if kind == "f16":
        return About(x.value, x.bound + 2.0**-11 * size + 2.0**-25)
    return About(x.value, x.bound + _steps(x) * (0.5 + 127 * (2.0**-11 + 3 * U)) + 127 * 2.0**-25)


def as_int8(x: About) -> About:
    """A row as its int8 blocks give it back."""
    return About(x.value, x.bound + _steps(x) * (0.5 + 127 * 3 * U) + LEAST)


def _steps(x: About) -> F64:
    """For each number, a step of its block of 32."""
    size = (np.abs(x.value) + x.bound).reshape(*x.value.shape[:-1], -1, 32)
    steps: F64 = np.repeat(size.max(axis=-1) / 127, 32, axis=-1)
    return steps
