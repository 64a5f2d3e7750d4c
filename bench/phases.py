"""Where the time of a step goes: each phase of the network beside what the memory or the arithmetic would allow.

    python bench/phases.py MODEL ... [--threads 2] [--repetitions 5] [--depth N]

Phases are run one by one, summed over the layers. A call takes some microseconds itself; those are measured and taken
off. Medians over the steps, and the best tenth of them, which on a busy machine comes nearer to the truth.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
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
    """Seconds of each phase of each step."""

    def __init__(self, model: LoadedModel) -> None:
        self._decoder = cast(Any, model.decoder)
        self._run: Callable[[int, int], None] = self._decoder._run
        self._last = model.spec.n_layers * 5
        self.steps: list[dict[str, float]] = []
        self._decoder._tracer, self._decoder._run = NoTrace(), self._timed
        empty = sorted(self._seconds(lambda: self._run(0, 0)) for _ in range(2000))
        self.call_s = empty[len(empty) // 2]

    def step(self, tokens: list[int], n_logits: int) -> None:
        self.steps.append(defaultdict(float))
        total = self._seconds(lambda: self._decoder.forward(tokens, n_logits))
        self.steps[-1]["around"] = total - sum(self.steps[-1].values()) - (self._last + 1) * self.call_s

    def _timed(self, first: int, end: int) -> None:
        seconds = self._seconds(lambda: self._run(first, end))
        self.steps[-1]["head" if first == self._last else NAMES[first % 5]] += seconds - self.call_s

    @staticmethod
    def _seconds(work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start


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
    title: str, steps: Iterable[dict[str, float]], tokens: int, work: dict[str, Work], column: str,
    rate: Callable[[str, Work, float], str],
) -> None:  # fmt: skip
    """`rate(phase, work, seconds)` says how near the best tenth of `phase` comes to its limit."""
    steps = list(steps)
    print(f"{title:24} {'ms, median':>10} {'best':>8}  {column}")
    sums = [0.0, 0.0]
    for phase in PARTS:
        values = np.array([step[phase] for step in steps]) / tokens * 1e3
        median, best = np.percentile(values, (50, 10))
        sums = [sums[0] + median, sums[1] + best]
        print(f"  {phase:22} {median:10.3f} {best:8.3f}  {rate(phase, work[phase], best / 1e3)}")
    print(f"  {'all':22} {sums[0]:10.3f} {sums[1]:8.3f}  a token")


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

    def read(end: int) -> None:
        for first in range(decoder.length, end, decoder.chunk):
            part = tokens[first : min(first + decoder.chunk, end)]
            clock.step(part, 1 if first + len(part) == end else 0)

    def gigabytes(_: str, work: Work, seconds: float) -> str:
        speed = work.n_bytes / 1e9 / seconds if seconds > 0 else 0.0
        return f"{work.n_bytes / 1e6:8.1f} {speed:7.1f} {speed / limit:7.0%}" if work.n_bytes else ""

    def products(phase: str, work: Work, seconds: float) -> str:
        amount = work.products / (PROMPT if phase == "head" else 1)  # one row of a prompt goes through the head
        return f"{amount / seconds / 1e9:8.0f}" if amount and seconds > 0 else ""

    read(options.depth)
    for _ in range(options.repetitions):
        decoder.truncate(options.depth)
        for token in tokens[: GENERATED // 2]:
            clock.step([token], 1)
    replies = clock.steps[-options.repetitions * GENERATED // 2 :]
    table("a token of a reply", replies, 1, work, "MB read    GB/s   of the limit", gigabytes)
    prompts = []
    for _ in range(options.repetitions):
        decoder.truncate(options.depth)
        before = len(clock.steps)
        read(options.depth + PROMPT)
        prompts.append({phase: sum(step[phase] for step in clock.steps[before:]) for phase in PARTS})
    table(f"a token of {PROMPT}", prompts, PROMPT, work, "10^9 multiply-adds a second", products)
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
