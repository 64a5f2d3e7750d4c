"""Everything about the CUDA engine that only a real GPU can tell, in one run of under eight minutes.

    pip install -e '.[dev,cuda13]'
    python -m bench.gpu [--json FILE] [--shapes 0.6b 1.7b 4b 8b] [--formats Q8_0 Q4_K]

First whether it is right: every format, shape and cache against NumPy bit for bit, a trained model against the CPU
engine, each in steps of every size and prompts in chunks, one launch and many. A wrong result ends the run: no speed is
worth having from a wrong kernel. Then how fast: copying, and for the shapes of Qwen3 with random weights prompts, steps
of 1, 2, 4 and 8 tokens, one launch a step against a graph and against steps that follow each other on the card alone,
and the share of what reading the weights alone allows.

After seven minutes nothing new is begun, and before eight the run ends whatever it is doing, for a kernel may hang.
What was left out is told. Exit code 0: all of it was done and is right.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from app.engine.cuda.device import Device
from app.engine.cuda.find import open_gpu
from app.engine.formats import FORMATS, GGMLType
from app.errors import CudaUnavailableError, DeviceMemoryError
from bench.gpu_checks import CASES, STEPS, Case, check_case, check_greedy, check_reading, check_trained
from bench.gpu_speed import Sizes, Speed, copy_gb_s, measure
from bench.random_gpu_model import SHAPES
from bench.time_limit import TimeLimit

WAYS = "ms a step: one launch | graph | alone"
HEADING = f"{'':14}{'tokens/s':>10}{'of reading':>12}{'GB/s read':>11}{'prompt/s':>10}   {WAYS}"
READ_BYTES = 64 << 20  # for the check of reading and copying


@dataclass(frozen=True)
class Extent:
    """How much is done: all that a card can do in the time. `decoder` holds options of CudaDecoder."""

    cases: Sequence[Case] = CASES
    steps: Sequence[int] = STEPS
    read_bytes: int = READ_BYTES
    shapes: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: SHAPES)
    sizes: Sizes = field(default_factory=Sizes)
    soft_s: float = 420.0
    hard_s: float = 470.0
    decoder: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


class Run:
    """One run on one card: what was found so far is kept, however it ends."""

    def __init__(self, gpu: Device, extent: Extent, to: Path | None, leave: Callable[[int], object]) -> None:
        self._gpu, self._extent, self._to, self._leave = gpu, extent, to, leave
        self._limit = TimeLimit(extent.soft_s, extent.hard_s, self._expired)
        self.checks: dict[str, bool] = {}
        self._copy_gb_s: float | None = None
        self._speeds: list[Speed] = []
        self._hung: str | None = None

    def all(self, formats: Sequence[str]) -> int:
        """Do everything. The exit code."""
        facts = self._gpu.facts
        print(f"{facts.name}, {facts.architecture}, {facts.n_multiprocessors} multiprocessors", flush=True)
        try:
            self._check()
            if all(self.checks.values()):
                self._measure(formats)
        finally:
            self._limit.end()
            self._save()
        for what, why in self._limit.left_out.items():
            print(f"LEFT OUT: {what}: {why}")
        wrong = [question for question, right in self.checks.items() if not right]
        for question in wrong:
            print(f"WRONG: {question}", file=sys.stderr)
        return 1 if wrong or self._limit.left_out else 0

    def _check(self) -> None:
        gpu, steps, options = self._gpu, self._extent.steps, self._extent.decoder
        checks: dict[str, Callable[[], Iterator[tuple[str, bool]]]] = {
            "reading and copying": lambda: check_reading(gpu, self._extent.read_bytes),
            "a trained model": lambda: check_trained(gpu, steps, **options),
            "greedy decoding": lambda: check_greedy(gpu, steps, **options),
        }
        for case in self._extent.cases:
            checks[case.name] = lambda case=case: check_case(case, gpu, steps, **options)  # type: ignore[misc]
        for name, questions in checks.items():
            if not self._limit.allows(f"check of {name}"):
                continue
            for question, right in questions():
                self.checks[question] = right
                print(f"{self._limit.seconds:5.0f} s  {'right' if right else 'WRONG'}  {question}", flush=True)

    def _measure(self, formats: Sequence[str]) -> None:
        sizes = self._extent.sizes
        if self._limit.allows("copying"):
            self._copy_gb_s = copy_gb_s(self._gpu, min(sizes.copy_bytes, self._gpu.free_bytes() // 4))
            print(f"\ncopying: {self._copy_gb_s:.0f} GB/s read and written\n\n{HEADING}")
        for shape, differs in self._extent.shapes.items():
            for kind in formats:
                what = f"{shape} {kind}"
                if not self._limit.allows(what):
                    continue
                try:
                    speed = measure(self._gpu, shape, differs, GGMLType[kind], sizes, **self._extent.decoder)
                except (MemoryError, DeviceMemoryError):
                    self._limit.left_out[what] = f"more than the {self._gpu.free_bytes() / 1e9:.1f} GB that are free"
                    continue
                self._speeds.append(speed)
                print(_row(speed), flush=True)

    def _expired(self, doing: str) -> None:
        self._hung = doing
        print(f"HUNG: {doing} had not ended after {self._limit.seconds:.0f} s", file=sys.stderr, flush=True)
        self._save()
        self._leave(1)

    def _save(self) -> None:
        if self._to is None:
            return
        facts = {
            "gpu": asdict(self._gpu.facts),
            "seconds": self._limit.seconds,
            "checks": self.checks,
            "copy_gb_s": self._copy_gb_s,
            "speeds": [asdict(speed) for speed in self._speeds],
            "left_out": self._limit.left_out,
            "hung": self._hung,
        }
        self._to.write_text(json.dumps(facts, indent=1) + "\n")


def _row(speed: Speed) -> str:
    steps = " | ".join(
        " ".join(f"{1000 * seconds:.2f}" for seconds in times.values()) or "none"
        for times in (speed.persistent_s, speed.graph_s, speed.alone_s)
    )
    return (
        f"{speed.shape:6}{speed.format:8}{speed.decode_tok_s:10.1f}{speed.share_of_reading:12.0%}"
        f"{speed.read_gb_s:11.0f}{speed.prompt_tok_s:10.0f}   {steps}"
    )


def main(
    arguments: Sequence[str] | None = None, *, open_device: Callable[[], Device] = open_gpu, extent: Extent = Extent(),
    leave: Callable[[int], object] = os._exit,
) -> int:  # fmt: skip
    """The exit code. `leave` ends the process where something hangs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--shapes", nargs="+", choices=extent.shapes, default=list(extent.shapes))
    parser.add_argument("--formats", nargs="+", choices=[kind.name for kind in FORMATS], default=["Q8_0", "Q4_K"])
    options = parser.parse_args(arguments)
    try:
        gpu = open_device()
    except CudaUnavailableError as error:
        print(error.message, file=sys.stderr)
        return 1
    chosen = {shape: extent.shapes[shape] for shape in options.shapes}
    return Run(gpu, dataclasses.replace(extent, shapes=chosen), options.json, leave).all(options.formats)


if __name__ == "__main__":
    sys.exit(main())
