"""How a row of logits becomes a token: the parameters with their checks and published defaults, and the sampler.

The filters run in the order of Hugging Face and vLLM, temperature first:

    penalties -> temperature -> top-k -> top-p -> min-p -> draw

llama.cpp scales by temperature last, so that its top-p and min-p see other probabilities; the values that model authors
publish were chosen for this order.

A draw depends on the logits, the seed, the position and the tokens before it, and on nothing else: there is no
generator state to advance, so drawing a position twice, or in another order (as speculation does), changes nothing.
`draw.py` holds the arithmetic and says why it has the same bits everywhere.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.engine.draw import (
    CUT,
    WEIGHT_BITS,
    Floats,
    Integers,
    Weights,
    pick,
    random_bits,
    reached_by,
    softmax_weights,
    top_k,
    top_p,
)
from app.errors import ModelFileError, UsageError, printable

GREEDY_BELOW = 1e-3  # temperatures up to here are argmax: at 0.001 a gap of 0.05 already means odds of e^50
MAX_TEMPERATURE = 100.0  # flat for any real model; keeps float32 thresholds finite


@dataclass(frozen=True)
class SamplingParams:
    """What shapes a draw; the defaults leave the model's own distribution alone.

    temperature          0 .. 100; 0 (and up to 0.001) takes the best token, the lowest id among equals
    top_k                keep the k best tokens; 0 keeps all
    top_p                keep the fewest best tokens that hold this much probability, 0 .. 1; 0 keeps one, 1 all
    min_p                keep tokens at least this probable relative to the best one, 0 .. 1; 0 keeps all
    presence_penalty     taken once from the logit of a token seen among the last `repeat_last_n`, -2 .. 2
    frequency_penalty    taken once for every time that it was seen there, -2 .. 2
    repeat_penalty       divides a positive logit (multiplies a negative one) of a token seen there, 0.01 .. 100; 1 off
    repeat_last_n        how many tokens back the penalties look, prompt included; 0 disables them, -1 looks at all
    seed                 0 .. 2^64 - 1, or None for a fresh one for every reply

    Raises UsageError for a value out of range, so that a mistake shows before a model loads.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    seed: int | None = None

    def __post_init__(self) -> None:
        _check_real("temperature", self.temperature, 0.0, MAX_TEMPERATURE, "0 always takes the best token")
        _check_whole("top_k", self.top_k, 0, None, "0 keeps every token")
        _check_real("top_p", self.top_p, 0.0, 1.0, "1 keeps every token, 0 only the best")
        _check_real("min_p", self.min_p, 0.0, 1.0, "0 keeps every token")
        _check_real("presence_penalty", self.presence_penalty, -2.0, 2.0, "0 is off")
        _check_real("frequency_penalty", self.frequency_penalty, -2.0, 2.0, "0 is off")
        _check_real("repeat_penalty", self.repeat_penalty, 0.01, 100.0, "1 is off")
        _check_whole("repeat_last_n", self.repeat_last_n, -1, None, "0 is off, -1 looks at the whole context")
        if self.seed is not None:
            _check_whole("seed", self.seed, 0, 2**64 - 1, "leave it out for a fresh one every time")

    @property
    def penalises(self) -> bool:
        """Whether the tokens before the drawn one matter."""
        changes = (self.presence_penalty, self.frequency_penalty, self.repeat_penalty) != (0.0, 0.0, 1.0)
        return changes and self.repeat_last_n != 0

    @property
    def takes_the_best(self) -> bool:
        """Whether a draw is the best token of the model's own logits, the lowest id among equals."""
        return self.temperature <= GREEDY_BELOW and not self.penalises


def _check_real(name: str, value: object, low: float, high: float, hint: str) -> None:
    # nan fails both comparisons
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise UsageError(f"{name} must be between {low:g} and {high:g}, not {printable(str(value))}", hint)


def _check_whole(name: str, value: object, low: int, high: int | None, hint: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        limits = f"at least {low}" if high is None else f"{low} to {high}"
        raise UsageError(f"{name} must be a whole number, {limits}, not {printable(str(value))}", hint)


class Sampler:
    """Draws tokens by one set of parameters. Its only state is the seed: the parameters' own, or a random one.

    It keeps two arrays of the vocabulary's size from draw to draw: fresh memory costs more than the arithmetic in it.
    """

    def __init__(self, params: SamplingParams) -> None:
        self.params = params
        self.seed = secrets.randbits(64) if params.seed is None else params.seed
        self._room = np.empty((2, 0))

    def draw(self, logits: Floats, position: int, history: Sequence[int]) -> int:
        """The token for `position` (its index in the sequence), given `logits` [vocab] and the tokens before it.

        Raises ModelFileError when the best logit is not a finite number: the weights or the arithmetic are broken.
        """
        scores = self._penalised(logits, history) if self.params.penalises else logits
        best = int(np.argmax(scores))  # the lowest id among equals; the first nan, if there is one
        if not math.isfinite(scores[best]):
            raise ModelFileError(
                f"the model gave {scores[best]} as the score of token {best}",
                "the file may be damaged; remove the model and pull it again",
            )
        if self.params.temperature <= GREEDY_BELOW:
            return best
        ids, weights = self._candidates(scores, float(scores[best]))
        return int(ids[pick(weights, random_bits(self.seed, position))])

    def _penalised(self, logits: Floats, history: Sequence[int]) -> Floats:
        """A copy of the logits after llama.cpp's penalties: repeat first, then frequency and presence."""
        params = self.params
        window = history if params.repeat_last_n < 0 else history[-params.repeat_last_n :]
        ordered = np.sort(np.asarray(window, dtype=np.int64))
        first = np.flatnonzero(np.diff(ordered, prepend=-1))  # np.unique would import numpy.ma before the first token
        seen, counts = ordered[first], np.diff(first, append=len(ordered))
        values = logits[seen].astype(np.float64)
        values = np.where(values > 0, values / params.repeat_penalty, values * params.repeat_penalty)
        scores = logits.copy()
        scores[seen] = values - counts * params.frequency_penalty - params.presence_penalty
        return scores

    def _candidates(self, scores: Floats, best: float) -> tuple[Integers, Weights]:
        """Tokens in id order, and their weights after temperature, top-k, top-p and min-p: 0 for what these leave out.

        The weights are overwritten by the next draw.
        """
        params = self.params
        depth = CUT  # temperatures below the best score; what lies deeper would weigh nothing
        if params.min_p > 0.0 and params.top_p == 1.0:  # top-p needs the sum of all
            depth = min(CUT, 1e-3 - math.log(params.min_p))
        bar = best - depth * params.temperature
        if params.top_k > 0:
            bar = max(bar, reached_by(scores, params.top_k))
        ids = np.flatnonzero(scores >= bar)
        if 0 < params.top_k < len(ids):
            ids = ids[top_k(scores[ids], params.top_k)]
        if self._room.shape[1] < len(scores):
            self._room = np.empty((2, len(scores)))
        weights = softmax_weights(scores[ids], best, params.temperature, out=self._room[0])
        if params.top_p < 1.0:
            weights *= top_p(weights, params.top_p, self._room[1])
        if params.min_p > 0.0:
            weights *= weights >= params.min_p * 2.0**WEIGHT_BITS
        return ids, weights


# What the authors of a family recommend. Sources, in order: the cards of Qwen/Qwen3-* ("Best Practices");
# generation_config.json of Qwen/Qwen2.5-*-Instruct (the two smallest sizes penalise repetition more); the card of
# HuggingFaceTB/SmolLM2-*-Instruct. The last is for all others: values that most front ends start from.
_QWEN3_THINKING = SamplingParams(temperature=0.6, top_p=0.95, top_k=20)
_QWEN3_PLAIN = SamplingParams(temperature=0.7, top_p=0.8, top_k=20)
_QWEN2 = SamplingParams(temperature=0.7, top_p=0.8, top_k=20, repeat_penalty=1.05)
_QWEN2_SMALL = replace(_QWEN2, repeat_penalty=1.1)
_SMOLLM2 = SamplingParams(temperature=0.2, top_p=0.9)
_OTHERS = SamplingParams(temperature=0.7, top_p=0.95, top_k=40, min_p=0.05)


def default_sampling(metadata: Mapping[str, Any], thinking: bool) -> SamplingParams:
    """The parameters for a model when nobody chose any: its file's `general.sampling.*`, else its family's values.

    Raises ModelFileError where the file recommends something that is not a usable number.
    """
    return _with_file_values(_family_values(metadata, thinking), metadata)


def _family_values(metadata: Mapping[str, Any], thinking: bool) -> SamplingParams:
    # Neither key alone says enough: "qwen2" is also the architecture of models with other names and other values, and
    # converters differ in which of the two names they write.
    names = f"{metadata.get('general.basename', '')} {metadata.get('general.name', '')}".lower()
    names = re.sub(r"[ _-]+", "-", names)
    architecture = metadata.get("general.architecture")
    if architecture == "qwen3":
        return _QWEN3_THINKING if thinking else _QWEN3_PLAIN
    if architecture == "qwen2" and re.search(r"\bqwen-?2", names):
        sizes = f"{names}-{metadata.get('general.size_label', '')}".lower()
        return _QWEN2_SMALL if re.search(r"(?<![\d.])(0\.5|1\.5)b", sizes) else _QWEN2
    if re.search(r"\bsmollm-?2", names):
        return _SMOLLM2
    return _OTHERS


def _with_file_values(params: SamplingParams, metadata: Mapping[str, Any]) -> SamplingParams:
    """`params` with what the file says, read as llama.cpp reads its own keys (a negative limit means "off")."""

    def number(key: str, low: float, high: float) -> float | None:
        value = metadata.get(f"general.sampling.{key}")
        if value is None:
            return None
        if not isinstance(value, int | float | np.number) or not math.isfinite(value):
            shown = printable(str(value))
            raise ModelFileError(
                f"the model file recommends general.sampling.{key} = {shown}, which is not a number",
                "convert the model again without that key",
            )
        # The shortest decimal that is this float32: 0.6, not 0.6000000238418579.
        return min(max(float(str(np.float32(value))), low), high)

    found = {
        "temperature": number("temp", 0.0, MAX_TEMPERATURE),
        "top_k": number("top_k", 0, 2**31),
        "top_p": number("top_p", 0.0, 1.0),
        "min_p": number("min_p", 0.0, 1.0),
        "repeat_penalty": number("penalty_repeat", 0.01, 100.0),
        "repeat_last_n": number("penalty_last_n", -1, 2**31),
    }
    whole = {"top_k", "repeat_last_n"}
    values = {name: int(v) if name in whole else v for name, v in found.items() if v is not None}
    return replace(params, **values)  # type: ignore[arg-type]  # mypy cannot match the names with their types
