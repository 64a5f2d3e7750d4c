"""The arithmetic of one random draw: bits for a position, softmax weights, top-k and top-p, as exact integers.

A draw must be the same on every machine. Weights are made by elementwise additions, products and quotients, which IEEE
754 rounds exactly one way whatever vector instructions numpy picks (its own `exp` is not such an operation), and are
then 32-bit fixed-point integers, whose sums have no rounding at all. A token less than 2^-32 times as likely as the
best one weighs nothing and is never drawn.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

WEIGHT_BITS = 32  # the best token weighs 2^32
CUT = (WEIGHT_BITS + 1) * math.log(2)  # tokens this many temperatures below the best weigh 0

_INDEX_BITS = 20  # of a sort key; a million tokens is four times the largest vocabulary
_EXP_TERMS = [2.0**WEIGHT_BITS / math.factorial(n) for n in range(6, -1, -1)]  # Taylor series to r^6
_EXP_BLOCK = 8192  # values at a time: 64 KiB temporaries stay in the cache and in malloc's arena, seven times faster


def random_bits(seed: int, position: int) -> int:
    """64 random bits for one position: output number `position` of SplitMix64 started at `seed`.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014), with the constants of
    Vigna's splitmix64.c. Its state is a plain counter, so any output is reached without the ones before it.
    """
    mask = 2**64 - 1
    z = (seed + (position + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def softmax_weights(scores: Floats, best: float, temperature: float) -> Integers:
    """exp((scores - best) / temperature) * 2^32, rounded down, for scores from `best` to 40 temperatures below it.

    With x the argument of exp and n the nearest integer to -x / ln 2, exp(x) = 2^-n * exp(r): Horner's rule for exp(r),
    a right shift for 2^-n. |r| <= ln(2) / 2, so the series leaves 2e-7 of the value, less than a float32 logit's own
    last bit.
    """
    weights = np.empty(len(scores), np.int64)
    for start in range(0, len(scores), _EXP_BLOCK):
        scaled = best - scores[start : start + _EXP_BLOCK].astype(np.float64)
        scaled /= temperature * math.log(2)
        n = np.rint(scaled)
        r = (n - scaled) * math.log(2)
        value = r * _EXP_TERMS[0]
        for term in _EXP_TERMS[1:-1]:
            value += term
            value *= r
        value += _EXP_TERMS[-1]
        weights[start : start + _EXP_BLOCK] = value.astype(np.int64) >> n.astype(np.int64)
    return weights


def top_k(scores: Floats, k: int) -> Integers:
    """Indices, ascending, of the `k` best scores (1 <= k <= len); of equal scores the first ones."""
    bar = np.partition(scores, len(scores) - k)[len(scores) - k]  # the k-th best score
    chosen = scores > bar
    level = np.flatnonzero(scores == bar)
    chosen[level[: k - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def top_p(weights: Integers, p: float) -> Integers:
    """Indices, ascending, of the fewest heaviest tokens whose weights reach `p` of the sum; of equals the first."""
    total = int(weights.sum())
    need = int(p * total)
    # Tokens lighter than an equal share of what may be left out hold less than that together: none of them is needed.
    heavy = np.flatnonzero(weights * len(weights) >= total - need)
    last = 2**_INDEX_BITS - 1
    keys = np.sort((weights[heavy] << _INDEX_BITS) | (last - heavy))[::-1]  # one integer: weight first, then index
    count = int(np.searchsorted(np.cumsum(keys >> _INDEX_BITS), need)) + 1
    return np.sort(last - (keys[:count] & last))


def pick(weights: Integers, bits: int) -> int:
    """The index that 64 random `bits` fall on, each index as often as its weight says (to within 2^-64)."""
    cumulative = np.cumsum(weights)
    target = (bits * int(cumulative[-1])) >> 64  # 0 <= target < the sum
    return int(np.searchsorted(cumulative, target, side="right"))
