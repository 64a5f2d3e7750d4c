"""Where the time of a step goes: each phase of the network beside what the memory or the arithmetic would allow.

    python bench/phases.py MODEL ... [--threads 2] [--repetitions 5] [--depth N]

Phases are run one by one, summed over the layers. A call takes some microseconds itself; those are measured and taken
off. Each call counts with its median over the repetitions, and with the best tenth of them, which comes nearer to the
truth on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from participant import GENERATED, PROMPT, room
from peer_qchat import ROOT, QChat, home_of
from peers import add_common_options, resolve

if TYPE_CHECKING:
    from app.engine.model import LoadedModel

PARTS = {
    "Q K V": ("attn_q", "attn_k", "attn_v"),
    "attention": (),
    "output": ("attn_output",),
    "gate, up": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
    "head": ("head",),
    "around": (),  # what a step does in Python
}
NAMES = tuple(PARTS)


@dataclass(frozen=True)
class Work:
    """Of one phase in all layers, for one token: bytes of weights as stored, and multiply-adds."""

    n_bytes: int
    products: int


class NoTrace:
    """Makes the decoder run each phase in a call of its own."""

    def record(self, *_: object) -> None:
        """Nothing is kept."""


class Clock:
    """Seconds of each call of each step."""

    def __init__(self, model: LoadedModel) -> None:
        self._decoder = cast(Any, model.decoder)
        self._run: Callable[[int, int], None] = self._decoder._run
        self._calls: list[float] = []
        self._decoder._tracer, self._decoder._run = NoTrace(), self._timed
        self.call_s = statistics.median(_seconds(lambda: self._run(0, 0)) for _ in range(2000))

    def step(self, tokens: list[int], n_logits: int) -> list[float]:
        """Of one step: every phase of every layer, the head, and what is around them in Python."""
        self._calls = []
        total = _seconds(lambda: self._decoder.forward(tokens, n_logits))
        around = total - sum(self._calls)
        return [seconds - self.call_s for seconds in self._calls] + [around]

    def _timed(self, first: int, end: int) -> None:
        self._calls.append(_seconds(lambda: self._run(first, end)))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def by_phase(seconds: NDArray[np.float64]) -> dict[str, float]:
    """What belongs to each phase, of [..., calls of a step], summed."""
    sums = {name: float(seconds[..., i:-2:5].sum()) for i, name in enumerate(NAMES[:5])}
    return sums | {"head": float(seconds[..., -2].sum()), "around": float(seconds[..., -1].sum())}


def work_of(model: LoadedModel) -> dict[str, Work]:
    head = "token_embd" if model.spec.tied_head else "output"
    found: dict[str, Work] = {}
    for phase, parts in PARTS.items():
        names = [f"{head}.weight"] if phase == "head" else []
        names += [f"blk.{i}.{part}.weight" for i in range(model.spec.n_layers) for part in parts if part != "head"]
        tensors = [model.gguf.tensors[name] for name in names]
        found[phase] = Work(sum(t.n_bytes for t in tensors), sum(t.shape[0] * t.shape[1] for t in tensors))
    return found


def table(
    title: str, column: str, tokens: int, seconds: NDArray[np.float64], rate: Callable[[str, float], str]
) -> None:
    """`seconds` [repetitions, ..., calls of a step]; `rate(phase, best seconds a token)` ends a line."""
    median, best = (by_phase(np.percentile(seconds, part, axis=0) / tokens) for part in (50, 10))
    print(f"{title:24} {'median':>8} {'best':>8}  {column}")
    for name in NAMES:
        print(f"  {name:22} {median[name] * 1e3:8.3f} {best[name] * 1e3:8.3f}  {rate(name, best[name])}")
    print(f"  {'all':22} {sum(median.values()) * 1e3:8.3f} {sum(best.values()) * 1e3:8.3f}")


def measure(path: Path, options: argparse.Namespace) -> None:
    from app.engine.model import load_model

    ours = QChat(path, options.threads, 0)
    limit = max(ours.stream_gb_s() for _ in range(options.repetitions))
    ours.close()
    model = load_model(path, threads=options.threads, n_ctx=room(options.depth))
    tokens = np.random.default_rng(0).integers(0, model.spec.vocab_size, room(options.depth)).tolist()
    work, decoder = work_of(model), model.decoder
    clock = Clock(model)
    print(f"\n{path.name}, {model.isa}, {options.threads} threads, depth {options.depth}")
    print(f"memory limit {limit:.1f} GB/s (best of {options.repetitions}); a call takes {clock.call_s * 1e6:.1f} us")

    def read(end: int) -> list[list[float]]:
        starts = range(decoder.length, end, decoder.chunk)
        return [clock.step(tokens[i : min(i + decoder.chunk, end)], int(i + decoder.chunk >= end)) for i in starts]

    def gigabytes(phase: str, seconds: float) -> str:
        n_bytes = work[phase].n_bytes
        return f"{n_bytes / 1e6:8.1f} {n_bytes / 1e9 / seconds:7.1f} {n_bytes / 1e9 / seconds / limit:7.0%}" * (
            n_bytes > 0
        )

    def products(phase: str, seconds: float) -> str:
        count = work[phase].products / (PROMPT if phase == "head" else 1)  # one row of a prompt goes through the head
        return f"{count / 1e9 / seconds:8.0f}" if count else ""

    read(options.depth)
    replies, prompts = [], []
    for _ in range(options.repetitions):
        decoder.truncate(options.depth)
        prompts.append(read(options.depth + PROMPT))
        decoder.truncate(options.depth)
        replies += [clock.step([token], 1) for token in tokens[:GENERATED]]
    table("ms a token, replying", "MB read    GB/s   of the limit", 1, np.array(replies), gigabytes)
    table(f"ms a token of {PROMPT}", "10^9 multiply-adds a second", PROMPT, np.array(prompts), products)
    model.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_common_options(parser)
    parser.add_argument("--depth", type=int, default=0, help="tokens that are in the cache before")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    os.environ["QCHAT_HOME"] = str(home_of(ROOT))
    for model in options.models:
        measure(resolve(model), options)


if __name__ == "__main__":
    main()
