"""What choosing a token costs, and the rest of the work around a step: microseconds of processor time, medians.

    python bench/sampling.py            # both tables
    PYTHONPATH=OTHER_CHECKOUT python bench/sampling.py

"like a model": normal logits of deviation 4 whose best lies 22 above the mean, as SmolLM2-135M's do. At temperature 1
half of the vocabulary can be drawn, at 0.7 a twentieth. "flat": deviation 1, so that all can be drawn at any of these
temperatures; the worst case.

A reply has 300 tokens of English, greedy, from a decoder that takes no time and has the logits ready in the cache.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from app.engine.generate import GenerationSettings, Generator, Piece
from app.engine.repetition import RepetitionWatch
from app.engine.sampling import Sampler, SamplingParams
from app.engine.spec import ModelSpec
from app.engine.stop import StopFilter
from app.engine.text_stream import StreamDecoder
from app.templates.reply import ReplySplitter

VOCABULARIES = 49_152, 151_936  # SmolLM2, Qwen3
REPETITIONS = 100
TOKENS = 300
PENALTIES = {"repeat_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": 0.3}
PARAMETERS: dict[str, dict[str, float]] = {
    "greedy": {"temperature": 0},
    "greedy, penalties": {"temperature": 0} | PENALTIES,
    "temperature 0.7": {"temperature": 0.7},
    "temperature 1": {},
    "Qwen3 thinking: 0.6, top-k 20, top-p 0.95": {"temperature": 0.6, "top_k": 20, "top_p": 0.95},
    "Qwen3: 0.7, top-k 20, top-p 0.8": {"temperature": 0.7, "top_k": 20, "top_p": 0.8},
    "the same, penalties": {"temperature": 0.7, "top_k": 20, "top_p": 0.8} | PENALTIES,
    "0.7, top-k 40, top-p 0.95, min-p 0.05": {"temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
    "0.7, min-p 0.05": {"temperature": 0.7, "min_p": 0.05},
    "0.7, top-p 0.95": {"temperature": 0.7, "top_p": 0.95},
    "1, top-p 0.95": {"top_p": 0.95},
}
WORDS = b"The answer depends on what you ask for , and a short paragraph goes on for a while .\n".split(b" ")


def microseconds(work: Callable[[], object], repetitions: int = REPETITIONS) -> float:
    """Median processor time of a call."""
    times = []
    for _ in range(repetitions):
        start = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - start) / 1e3)
    return statistics.median(times)


def like_a_model(vocabulary: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 4, vocabulary)
    logits[rng.integers(0, vocabulary, 5)] = np.arange(22, 17, -1)
    return logits.astype(np.float32)


def flat(vocabulary: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(0, 1, vocabulary).astype(np.float32)


def print_draws() -> None:
    print(f"{'microseconds a draw':<44}{'like a model':>18}{'flat':>18}")
    print(" " * 44 + "".join(f"{v:>9,}" for v in VOCABULARIES * 2))
    cases = [shape(vocabulary) for shape in (like_a_model, flat) for vocabulary in VOCABULARIES]
    history = np.random.default_rng(1).integers(0, min(VOCABULARIES), 1000).tolist()
    for name, values in PARAMETERS.items():
        sampler = Sampler(SamplingParams(seed=1, **values))  # type: ignore[arg-type]  # whole numbers are floats here
        times = [microseconds(lambda: sampler.draw(logits, 1000, history)) for logits in cases]  # noqa: B023 - at once
        print(f"{name:<44}" + "".join(f"{us:>9.0f}" for us in times))


class Words:
    """A tokenizer of a few words."""

    eos_ids = frozenset[int]()

    def token_bytes(self, token_id: int) -> bytes:
        return WORDS[token_id % len(WORDS)] + b" "


class Ready:
    """A decoder that says one id after the other; its logits are where the last step left them."""

    spec: ModelSpec  # unused
    n_ctx, chunk = 4096, 512

    def __init__(self, logits: NDArray[np.float32], ids: Sequence[int]) -> None:
        self.length = 0
        self._logits, self._ids = logits[np.newaxis], ids
        self._said = 0

    def truncate(self, length: int) -> None:
        self.length = length

    def forward(self, tokens: Sequence[int], n_logits: int) -> NDArray[np.float32]:
        self.length += len(tokens)
        self._logits[0, self._ids[self._said - 1]] = 0
        self._logits[0, self._ids[self._said]] = 30
        self._said += 1
        return self._logits

    def interrupt(self) -> None:
        raise AssertionError("nobody cancels")


def print_reply() -> None:
    logits = like_a_model(VOCABULARIES[0])
    rng = np.random.default_rng(2)
    ids = [int(line * 100 + word) for line in rng.integers(0, 400, TOKENS // 20) for word in range(20)]
    pieces = [Words().token_bytes(token).decode() for token in ids]
    greedy = GenerationSettings(SamplingParams(temperature=0), TOKENS)

    def whole() -> None:
        tokens = [piece.token_id for piece in Generator(Ready(logits, ids), Words()).stream(range(20), greedy)]
        assert tokens == ids

    def draw() -> None:
        sampler = Sampler(greedy.sampling)
        for position in range(TOKENS):
            sampler.draw(logits, position, ids)

    def watch() -> None:
        repetition = RepetitionWatch()
        for token in ids:
            repetition.push(token)
            assert not repetition.looping

    def pushing(push: Callable[[str], object]) -> Callable[[], None]:
        def push_all() -> None:
            for piece in pieces:
                push(piece)

        return push_all

    def decode() -> None:
        text = StreamDecoder(Words())
        for token in ids:
            text.push(token)

    parts: dict[str, Callable[[], None]] = {
        "Generator.stream, with what follows": whole,
        "  Sampler.draw": draw,
        "  RepetitionWatch": watch,
        "  StreamDecoder.push": decode,
        "  Piece": pushing(lambda piece: Piece(1, piece)),
        "ReplySplitter.push": pushing(ReplySplitter(False).push),
        "StopFilter.push, no stops": pushing(StopFilter([]).push),
        "StopFilter.push, two stops": pushing(StopFilter(["<|im_end|>", "\nUser:"]).push),
    }
    print(f"\n{'microseconds a token of a greedy reply':<44}{VOCABULARIES[0]:>9,}")
    for name, work in parts.items():
        print(f"{name:<44}{microseconds(work, 30) / TOKENS:>9.2f}")


if __name__ == "__main__":
    print_draws()
    print_reply()
