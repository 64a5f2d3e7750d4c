"""Sampling: the limits of every parameter, the filters against a plain float64 softmax, and draws that repeat."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from app.engine.sampling import Sampler, SamplingParams, default_sampling
from app.errors import ModelFileError, UsageError

VOCAB = 151_936


def logits_of(*probabilities: float) -> np.ndarray:
    return np.log(np.array(probabilities)).astype(np.float32)


def draws(logits: np.ndarray, n: int = 1000, history: tuple[int, ...] = (), **params: float) -> Counter[int]:
    sampler = Sampler(SamplingParams(seed=7, **params))
    return Counter(sampler.draw(logits, position, history) for position in range(n))


def random_logits(seed: int = 0, n: int = VOCAB, spread: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, n).astype(np.float32)


# --- parameters (bug report N06) -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", 101),
        ("temperature", "0.7"),
        ("temperature", True),
        ("temperature", None),
        ("top_k", -1),
        ("top_k", 1.5),
        ("top_k", True),
        ("top_p", 1.5),
        ("top_p", -0.1),
        ("top_p", math.nan),
        ("min_p", 1.01),
        ("min_p", -0.01),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("repeat_penalty", 0),
        ("repeat_penalty", -1.1),
        ("repeat_penalty", math.nan),
        ("repeat_last_n", -2),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", 0.5),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"^{name} must be") as refusal:
        SamplingParams(**{name: value})
    assert refusal.value.hint


def test_a_refusal_shows_a_hostile_value_escaped() -> None:
    with pytest.raises(UsageError) as refusal:
        SamplingParams(temperature="\x1b[31m" + "9" * 500)  # type: ignore[arg-type]
    assert "\x1b" not in refusal.value.message
    assert len(refusal.value.message) < 150


@pytest.mark.parametrize("temperature", [0, 0.0, 1e-300, 1e-9, 1e-4, 1e-3])
def test_tiny_temperatures_are_argmax(temperature: float) -> None:
    logits = logits_of(0.2, 0.3000, 0.3001, 0.1999)
    assert draws(logits, 500, temperature=temperature) == {2: 500}


def test_the_smallest_temperature_that_draws_stays_finite() -> None:
    logits = np.array([1e4, -1e4, 1e4, 0], np.float32)
    assert set(draws(logits, 200, temperature=0.0011)) == {0, 2}


def test_top_k_and_top_p_limits() -> None:
    logits = logits_of(0.1, 0.4, 0.3, 0.2)
    unfiltered = draws(logits)
    assert draws(logits, top_k=0) == draws(logits, top_k=10**9) == draws(logits, top_p=1) == unfiltered
    assert set(unfiltered) == {0, 1, 2, 3}
    assert draws(logits, top_k=1) == draws(logits, top_p=0) == draws(logits, min_p=1) == {1: 1000}


# --- ties ----------------------------------------------------------------------------------------------------------


def test_greedy_takes_the_lowest_id_among_equals() -> None:
    logits = np.zeros(VOCAB, np.float32)
    logits[[90_000, 77, 151_935]] = 5
    assert Sampler(SamplingParams(temperature=0)).draw(logits, 0, ()) == 77


def test_filters_take_the_lowest_ids_among_equals() -> None:
    logits = np.zeros(1000, np.float32)
    logits[[900, 20]] = 3
    assert set(draws(logits, top_k=5, temperature=9)) == {0, 1, 2, 20, 900}
    level = np.zeros(10, np.float32)
    assert set(draws(level, top_p=0.3)) == {0, 1, 2}


# --- filters -------------------------------------------------------------------------------------------------------


def reference_probabilities(logits: np.ndarray, temperature: float, k: int, p: float, min_p: float) -> np.ndarray:
    """The filters word for word, in float64, over the whole vocabulary."""
    scaled = logits.astype(np.float64) / temperature
    order = np.lexsort((np.arange(len(logits)), -scaled))
    allowed = order[: k or None]
    weights = np.exp(scaled[allowed] - scaled.max())
    weights /= weights.sum()
    if p < 1:
        n = int(np.searchsorted(np.cumsum(weights), p)) + 1
        allowed, weights = allowed[:n], weights[:n]
    allowed, weights = allowed[weights >= min_p * weights[0]], weights[weights >= min_p * weights[0]]
    probabilities = np.zeros(len(logits))
    probabilities[allowed] = weights / weights.sum()
    return probabilities


@pytest.mark.parametrize("temperature", [0.2, 0.7, 1.5])
@pytest.mark.parametrize(
    ("k", "p", "min_p"),
    [(0, 1.0, 0.0), (20, 1.0, 0.0), (0, 0.9, 0.0), (0, 1.0, 0.05), (40, 0.95, 0.05), (500, 0.5, 0.2)],
)
def test_candidates_equal_a_plain_softmax(temperature: float, k: int, p: float, min_p: float) -> None:
    logits = random_logits(3)
    expected = reference_probabilities(logits, temperature, k, p, min_p)
    sampler = Sampler(SamplingParams(temperature=temperature, top_k=k, top_p=p, min_p=min_p, seed=0))
    ids, weights = sampler._candidates(logits, float(logits.max()))
    found = np.zeros(VOCAB)
    found[ids] = weights / weights.sum()
    assert np.abs(found - expected).max() < 1e-6
    assert (np.diff(ids) > 0).all()
    if k or p < 1 or min_p:
        assert set(ids[weights > 0]) == set(np.flatnonzero(expected))


def test_draws_follow_the_probabilities() -> None:
    probabilities = (0.5, 0.25, 0.15, 0.07, 0.03)
    n = 10_000
    counts = draws(logits_of(*probabilities), n)
    chi_squared = sum((counts[i] - n * p) ** 2 / (n * p) for i, p in enumerate(probabilities))
    assert chi_squared < 18.5  # 4 degrees of freedom: exceeded by chance once in a thousand; the seed is fixed


def test_temperature_is_applied_before_top_p() -> None:
    # At temperature 1 the nucleus of 0.8 is {0, 1}; at 2 the square roots of the odds need a third token.
    logits = logits_of(0.6, 0.25, 0.15)
    assert set(draws(logits, top_p=0.8)) == {0, 1}
    assert set(draws(logits, top_p=0.8, temperature=2)) == {0, 1, 2}


def test_top_p_counts_what_top_k_left() -> None:
    logits = logits_of(0.4, 0.3, 0.3)
    assert set(draws(logits, top_k=2, top_p=0.55)) == {0}  # 0.4 of 0.7 reaches 0.55


# --- penalties -----------------------------------------------------------------------------------------------------


def penalised(logits: list[float], history: tuple[int, ...], **params: float) -> list[float]:
    array = np.array(logits, np.float32)
    kept = array.copy()
    scores = Sampler(SamplingParams(**params))._penalised(array, history)
    assert (array == kept).all()
    return [round(float(score), 5) for score in scores]


def test_penalties_are_llama_cpps() -> None:
    assert penalised([2, -2, 0, 1], (0, 1, 2), repeat_penalty=2) == [1, -4, 0, 1]
    assert penalised([2, -2, 0, 1], (0, 0, 1), frequency_penalty=0.5) == [1, -2.5, 0, 1]
    assert penalised([2, -2, 0, 1], (0, 0, 1), presence_penalty=0.5) == [1.5, -2.5, 0, 1]
    everything = {"repeat_penalty": 2, "frequency_penalty": 0.25, "presence_penalty": 0.5}
    assert penalised([2, -2, 0, 1], (0, 0, 1), **everything) == [0, -4.75, 0, 1]


def test_penalties_look_repeat_last_n_back() -> None:
    assert penalised([4, 4, 4], (0, 1, 2), repeat_penalty=2, repeat_last_n=2) == [4, 2, 2]
    assert penalised([4, 4, 4], (0, 1, 2), repeat_penalty=2, repeat_last_n=-1) == [2, 2, 2]
    logits = np.array([4, 3], np.float32)
    assert draws(logits, 1, history=(0,), temperature=0, repeat_penalty=2, repeat_last_n=0) == {0: 1}
    assert draws(logits, 1, history=(0,), temperature=0, repeat_penalty=2) == {1: 1}


# --- the draw ------------------------------------------------------------------------------------------------------


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    logits = random_logits(1, 5000, spread=1.0)
    first = Sampler(SamplingParams(seed=5))
    forwards = [first.draw(logits, position, ()) for position in range(40)]
    backwards = [Sampler(SamplingParams(seed=5)).draw(logits, position, ()) for position in reversed(range(40))]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) > 30
    assert forwards != [Sampler(SamplingParams(seed=6)).draw(logits, position, ()) for position in range(40)]


def test_without_a_seed_every_reply_is_another() -> None:
    assert Sampler(SamplingParams()).seed != Sampler(SamplingParams()).seed
    assert Sampler(SamplingParams(seed=0)).seed == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_broken_logits_are_an_error_not_a_token(bad: float) -> None:
    logits = random_logits(n=100)
    logits[40] = bad
    for temperature in (0.0, 1.0):
        with pytest.raises(ModelFileError, match=f"{bad} as the score of token 40"):
            Sampler(SamplingParams(temperature=temperature)).draw(logits, 0, ())
    with pytest.raises(ModelFileError):
        Sampler(SamplingParams()).draw(np.full(100, -math.inf, np.float32), 0, ())


def test_masked_tokens_are_never_drawn() -> None:
    logits = np.full(50, -math.inf, np.float32)
    logits[[3, 9]] = 0
    assert set(draws(logits, 300, temperature=100, repeat_penalty=1.1, history=(3, 4))) == {3, 9}


# --- defaults ------------------------------------------------------------------------------------------------------


def of_family(architecture: str, name: str = "", *, thinking: bool = False, **extra: object) -> tuple[float, ...]:
    metadata = {"general.architecture": architecture, "general.name": name} | extra
    params = default_sampling(metadata, thinking)
    return params.temperature, params.top_p, params.top_k, params.min_p, params.repeat_penalty


def test_published_defaults_of_the_families() -> None:
    assert of_family("qwen3", "Qwen3 0.6B", thinking=True) == (0.6, 0.95, 20, 0, 1)
    assert of_family("qwen3", "Qwen3 0.6B", thinking=False) == (0.7, 0.8, 20, 0, 1)
    assert of_family("qwen2", "qwen2.5-0.5b-instruct") == (0.7, 0.8, 20, 0, 1.1)
    assert of_family("qwen2", "Qwen2.5 1.5B Instruct") == (0.7, 0.8, 20, 0, 1.1)
    assert of_family("qwen2", "Qwen2.5 7B Instruct") == (0.7, 0.8, 20, 0, 1.05)
    assert of_family("qwen2", "checkpoint", **{"general.basename": "Qwen2.5"}) == (0.7, 0.8, 20, 0, 1.05)
    assert of_family("llama", "Smollm2 135M 8k Lc100K Mix1 Ep2") == (0.2, 0.9, 0, 0, 1)
    assert of_family("llama", "x", **{"general.basename": "smollm2"}) == (0.2, 0.9, 0, 0, 1)


def test_other_models_get_the_common_values() -> None:
    common = (0.7, 0.95, 40, 0.05, 1)
    assert of_family("llama", "Llama 3.2 1B Instruct") == common
    assert of_family("qwen2", "DeepSeek R1 Distill Qwen 1.5B") == common
    assert default_sampling({}, thinking=True).top_k == 40


def test_the_files_own_values_come_first() -> None:
    recommended = {
        "general.sampling.temp": float(np.float32(0.6)),
        "general.sampling.top_k": np.uint32(64),
        "general.sampling.top_p": np.float32(0.95),
        "general.sampling.min_p": 0.1,
        "general.sampling.penalty_repeat": 1.2,
        "general.sampling.penalty_last_n": -1,
    }
    params = default_sampling({"general.architecture": "qwen3"} | recommended, thinking=False)
    assert params == SamplingParams(0.6, 64, 0.95, 0.1, repeat_penalty=1.2, repeat_last_n=-1)
    partly = default_sampling({"general.architecture": "qwen3", "general.sampling.temp": 0.3}, thinking=False)
    assert (partly.temperature, partly.top_p) == (0.3, 0.8)


def test_the_files_negative_limits_mean_off_as_in_llama_cpp() -> None:
    limits = {"general.sampling.temp": -1.0, "general.sampling.top_k": -1, "general.sampling.top_p": 1.5}
    params = default_sampling(limits, thinking=False)
    assert (params.temperature, params.top_k, params.top_p) == (0.0, 0, 1.0)


@pytest.mark.parametrize("bad", ["0.7\x1b[0m", math.nan, [1, 2]])
def test_the_files_nonsense_is_refused_by_key(bad: object) -> None:
    with pytest.raises(ModelFileError, match=r"general\.sampling\.temp = ") as refusal:
        default_sampling({"general.sampling.temp": bad}, thinking=False)
    assert "\x1b" not in refusal.value.message
