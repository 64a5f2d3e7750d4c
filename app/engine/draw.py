"""The arithmetic of one random draw: bits for a position, softmax weights, top-k and top-p, as exact whole numbers.

A draw must be the same on every machine. Weights are made by elementwise additions, products and quotients, which IEEE
754 rounds exactly one way whatever vector instructions numpy picks (its own `exp` is not such an operation), and are
then whole numbers up to 2^32. float64 holds sums of a million of them without rounding, so it makes no difference in
which order they are added, or which of them are never looked at. A token less than 2^-32 times as likely as the best
one weighs nothing and is never drawn.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.float64]  # whole numbers, 0 .. 2^32

WEIGHT_BITS = 32  # the best token weighs 2^32
CUT = (WEIGHT_BITS + 1) * math.log(2)  # tokens this many temperatures below the best weigh 0

_EXP_TERMS = [2.0**WEIGHT_BITS / math.factorial(n) for n in range(6, -1, -1)]  # Taylor series to r^6
_EXP_BLOCK = 8192  # values at a time: 64 KiB temporaries stay in the cache and in malloc's arena
_SORT_BLOCK = 2048  # as many as sort faster than they are halved once more
_SUM_BLOCK = 1024
_COLUMNS = 2048


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


def reached_by(scores: Floats, k: int) -> float:
    """A score that at least `k` tokens reach, and hardly more: the k-th best of the maxima of many columns of tokens.

    Looking at each token once takes a tenth of the time of `np.partition` on all.
    """
    columns = max(_COLUMNS, 4 * k)
    rows = len(scores) // columns
    if rows < 2:
        return -math.inf
    maxima = scores[: rows * columns].reshape(rows, columns).max(axis=0)
    return float(np.partition(maxima, columns - k)[columns - k])


def top_k(scores: Floats, k: int) -> Mask:
    """Which are the `k` best scores (1 <= k <= len); of equal scores the first ones."""
    bar = np.partition(scores, len(scores) - k)[len(scores) - k]  # the k-th best score
    return _first_from(bar, scores, k)


def softmax_weights(scores: Floats, best: float, temperature: float, out: Weights) -> Weights:
    """exp((scores - best) / temperature) * 2^32, rounded down, in the first elements of `out`, which are returned.

    Scores lie between `best` and 40 temperatures below it. With x the argument of exp and n the nearest integer to
    x / ln 2, exp(x) = 2^n * exp(r), exp(r) by Horner's rule. |r| <= ln(2) / 2, so the series leaves 2e-7 of the value,
    less than a float32 logit's own last bit.
    """
    for start in range(0, len(scores), _EXP_BLOCK):
        scaled = scores[start : start + _EXP_BLOCK].astype(np.float64)
        scaled -= best
        scaled /= temperature * math.log(2)
        n = np.rint(scaled)
        r = np.subtract(scaled, n, out=scaled)
        r *= math.log(2)
        value = np.multiply(r, _EXP_TERMS[0], out=out[start : start + len(r)])
        for term in _EXP_TERMS[1:-1]:
            value += term
            value *= r
        value += _EXP_TERMS[-1]
        np.floor(np.ldexp(value, n.astype(np.int32), out=value), out=value)
    return out[: len(scores)]


def top_p(weights: Weights, p: float, room: Weights) -> Mask:
    """Which are the fewest heaviest tokens whose weights reach `p` of the sum; of equals the first.

    `room` is at least as long as `weights`, and overwritten.
    """
    total = int(weights.sum())
    need, count = int(p * total), 0
    # Tokens lighter than an equal share of what may be left out hold less than that together: none of them is needed.
    heavy = np.flatnonzero(weights >= (total - need) // len(weights))
    rest = weights.take(heavy, out=room[: len(heavy)], mode="clip")  # "raise" would go through fresh memory
    while len(rest) > _SORT_BLOCK:
        middle = len(rest) // 2  # the lightest that is needed is in one half; the other is left out or counted
        rest.partition(middle)
        upper = int(rest[middle:].sum())
        if upper >= need:
            rest = rest[middle:]
        else:
            need -= upper
            count += len(rest) - middle
            rest = rest[:middle]
    falling = np.sort(rest)[::-1]
    last = int(np.searchsorted(np.cumsum(falling), need))
    return _first_from(falling[last], weights, count + last + 1)


def _first_from(bar: np.floating, values: Floats | Weights, count: int) -> Mask:
    """Which are the `count` values that lie above `bar`, or equal it and come first."""
    chosen = values > bar
    level = np.flatnonzero(values == bar)
    chosen[level[: count - np.count_nonzero(chosen)]] = True
    return chosen


def pick(weights: Weights, bits: int) -> int:
    """The index that 64 random `bits` fall on, each index as often as its weight says (to within 2^-64).

    Running sums are slow, so first blocks are summed, then the block that the bits fall on.
    """
    sums = np.add.reduceat(weights, np.arange(0, len(weights), _SUM_BLOCK))
    reached = np.cumsum(sums)
    target = (bits * int(reached[-1])) >> 64  # 0 <= target < the sum
    block = int(np.searchsorted(reached, target, side="right"))
    start = block * _SUM_BLOCK
    rest = target - int(reached[block] - sums[block])
    return start + int(np.searchsorted(np.cumsum(weights[start : start + _SUM_BLOCK]), rest, side="right"))
