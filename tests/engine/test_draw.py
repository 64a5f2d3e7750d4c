"""A draw's arithmetic: bit for bit its definition written out, whatever way was taken to it, and on any processor."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.draw import pick, random_bits, softmax_weights, top_k, top_p
from app.engine.sampling import Sampler, SamplingParams
from tests.engine.plain_sampler import penalised, plain_pick, plain_weights

# --- the fast way and the definition -------------------------------------------------------------------------------

LOGITS = {
    "random": lambda rng, n: rng.normal(0, 3, n),
    "peaked": lambda rng, n: rng.normal(0, 4, n) + np.where(rng.random(n) < 5 / n, 15, 0),
    "flat": lambda rng, n: rng.normal(0, 0.1, n),
    "tied": lambda rng, n: rng.integers(-3, 4, n),
    "equal": lambda rng, n: np.full(n, -2.5),
    "heavy-tailed": lambda rng, n: rng.standard_cauchy(n),
    "masked": lambda rng, n: np.where(rng.random(n) < 0.5, -np.inf, rng.normal(0, 3, n)),
    "huge": lambda rng, n: np.where(rng.random(n) < 0.5, 1e38, -1e38) * rng.random(n),
    "all but one masked": lambda rng, n: np.where(np.arange(n) == n // 2, 1.0, -np.inf),
}
PENALTIES = ({}, {"repeat_penalty": 1.3, "presence_penalty": 0.4, "frequency_penalty": -0.2, "repeat_last_n": 20})
SETTINGS = [
    dict(zip(("temperature", "top_k", "top_p", "min_p"), values, strict=True)) | penalties
    for *values, penalties in itertools.product(
        (0.0011, 0.7, 1.0, 100.0), (0, 1, 20, 3000), (1.0, 0.95, 0.5, 0.0), (0.0, 0.05, 1.0), PENALTIES
    )
]


def make_logits(kind: str, seed: int, n: int) -> np.ndarray:
    logits = LOGITS[kind](np.random.default_rng(seed), n).astype(np.float32)
    if not np.isfinite(logits.max()):
        logits[n // 2] = 0
    return logits


def assert_draws_as_defined(logits: np.ndarray, values: dict[str, float], positions: range) -> None:
    params = SamplingParams(seed=9, **values)
    history = [token % len(logits) for token in range(0, 500, 7)]
    kept = logits.copy()
    scores = penalised(logits, params, history) if params.penalises else [float(logit) for logit in logits]
    weights, sampler = plain_weights(scores, params), Sampler(params)
    for position in positions:
        expected = plain_pick(weights, random_bits(9, position))
        assert sampler.draw(logits, position, history) == expected, (params, position)
    array = np.array(scores, np.float32)
    found = dict(zip(*(a.tolist() for a in sampler._candidates(array, float(array.max()))), strict=True))
    assert {token: w for token, w in found.items() if w > 0} == weights, params
    assert (logits == kept).all()


@pytest.mark.parametrize("kind", LOGITS)
def test_every_draw_is_the_one_defined(kind: str) -> None:
    for seed, values in enumerate(SETTINGS):
        assert_draws_as_defined(make_logits(kind, seed, (1, 2, 30, 150)[seed // 2 % 4]), values, range(4))


@pytest.mark.parametrize("kind", LOGITS)
def test_every_draw_is_the_one_defined_where_the_vocabulary_is_taken_in_blocks(kind: str) -> None:
    for seed, values in enumerate(SETTINGS[::37]):
        assert_draws_as_defined(make_logits(kind, seed, 9000 + 2 * seed), values, range(20))


def test_greedy_is_the_first_best_after_penalties() -> None:
    for seed, kind in itertools.product(range(20), LOGITS):
        logits, history = make_logits(kind, seed, 50), list(range(0, 50, 3))
        params = SamplingParams(temperature=0, **PENALTIES[seed % 2])
        scores = penalised(logits, params, history) if params.penalises else [float(logit) for logit in logits]
        assert Sampler(params).draw(logits, 0, history) == scores.index(max(scores))


# --- its parts -----------------------------------------------------------------------------------------------------


def test_random_bits_are_splitmix64() -> None:
    # The first outputs for this seed, as published with Vigna's splitmix64.c on Rosetta Code.
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [random_bits(1234567, position) for position in range(5)] == published


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.data())
def test_top_k_equals_a_stable_sort(values: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    expected = sorted(sorted(range(len(values)), key=lambda i: -values[i])[:k])
    assert np.flatnonzero(top_k(np.array(values, np.float32), k)).tolist() == expected


@given(st.lists(st.integers(0, 2**32), max_size=60), st.floats(0, 0.999))
def test_top_p_equals_a_stable_sort(weights: list[int], p: float) -> None:
    weights = [2**32, *weights]
    need, order, reached = int(p * sum(weights)), sorted(range(len(weights)), key=lambda i: -weights[i]), 0
    expected = []
    for i in order:
        expected.append(i)
        reached += weights[i]
        if reached >= need:
            break
    chosen = top_p(np.array(weights, np.float64), p, room=np.empty(99))
    assert np.flatnonzero(chosen).tolist() == sorted(expected)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20).filter(any), st.integers(0, 2**64 - 1))
def test_pick_never_takes_a_token_without_weight(weights: list[int], bits: int) -> None:
    index = pick(np.array(weights, np.float64), bits)
    assert weights[index] > 0
    assert sum(weights[:index]) * 2**64 <= bits * sum(weights) < (sum(weights[: index + 1])) * 2**64


@settings(max_examples=50)
@given(st.floats(0.002, 50), st.lists(st.floats(0, 40), min_size=1, max_size=50))
def test_weights_are_exponentials(temperature: float, below: list[float]) -> None:
    scores = np.array([0, *(-x * temperature for x in below)], np.float32)
    expected = np.exp(scores.astype(np.float64) / temperature) * 2**32
    found = softmax_weights(scores, 0.0, temperature, out=np.empty(99))
    assert found[0] == 2**32
    assert (np.abs(found - expected) <= 1 + 2e-7 * expected).all()


# --- any processor -------------------------------------------------------------------------------------------------

_HASH_OF_DRAWS = """
import hashlib, numpy as np
from app.engine.sampling import Sampler, SamplingParams
logits = np.random.default_rng(0).normal(0, 3, 151936).astype(np.float32)
params = [dict(), dict(top_p=0.9), dict(top_k=40, min_p=0.05), dict(temperature=0.6, top_k=20, repeat_penalty=1.1)]
samplers = [Sampler(SamplingParams(seed=3, **p)) for p in params]
drawn = [s.draw(logits, position, range(position)) for s in samplers for position in range(20)]
weights = [s._candidates(logits, float(logits.max()))[1].tobytes() for s in samplers]
print(drawn, hashlib.sha256(b"".join(weights)).hexdigest())
"""


def test_weights_and_draws_have_the_same_bits_without_vector_instructions() -> None:
    everything = "X86_V4 X86_V3 AVX512_ICL AVX512_SPR AVX2 FMA3 AVX512F AVX512_SKX"
    outputs = []
    for disabled in ("", everything):
        environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": disabled}
        command = [sys.executable, "-W", "ignore", "-c", _HASH_OF_DRAWS]
        outputs.append(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    assert outputs[0] == outputs[1] != ""
