"""The definition of a draw, written out a token at a time with Python's own numbers; slow, and nothing to get wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from app.engine.sampling import SamplingParams

TERMS = [2.0**32 / math.factorial(n) for n in range(6, -1, -1)]


def penalised(logits: np.ndarray, params: SamplingParams, history: Sequence[int]) -> list[float]:
    """repeat, frequency, presence; then a float32 again."""
    scores = [float(logit) for logit in logits]
    n = params.repeat_last_n
    for token, count in Counter(history if n < 0 else history[len(history) - min(n, len(history)) :]).items():
        value = scores[token]
        value = value / params.repeat_penalty if value > 0 else value * params.repeat_penalty
        value = value - count * params.frequency_penalty - params.presence_penalty
        scores[token] = float(np.float32(value))
    return scores


def weight(score: float, best: float, temperature: float) -> int:
    """exp((score - best) / temperature) * 2^32, rounded down, by the series that defines it."""
    scaled = (best - score) / (temperature * math.log(2))
    if scaled > 40:
        return 0
    n = round(scaled)
    r = (n - scaled) * math.log(2)
    value = r * TERMS[0]
    for term in TERMS[1:-1]:
        value = (value + term) * r
    return int(value + TERMS[-1]) >> n


def plain_weights(scores: Sequence[float], params: SamplingParams) -> dict[int, int]:
    """Token to weight, in id order, of all tokens that may be drawn at a temperature above 0."""
    best = max(scores)
    by_score = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    weights = {token: weight(scores[token], best, params.temperature) for token in by_score[: params.top_k or None]}
    if params.top_p < 1:
        need, reached, kept = int(params.top_p * sum(weights.values())), 0, []
        for token in sorted(weights, key=lambda token: (-weights[token], token)):
            kept.append(token)
            reached += weights[token]
            if reached >= need:
                break
        weights = {token: weights[token] for token in kept}
    return {token: w for token, w in sorted(weights.items()) if w > 0 and w >= params.min_p * 2**32}


def plain_pick(weights: dict[int, int], bits: int) -> int:
    """The token that 64 random bits fall on."""
    target, reached = (bits * sum(weights.values())) >> 64, 0
    for token, w in weights.items():
        reached += w
        if reached > target:
            return token
    raise AssertionError("the bits lie beyond the sum")
