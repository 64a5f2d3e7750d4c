"""Prompt and generation speed of the CPU engine beside its peers, in turn in one run: medians, and ratios of pairs.

    python bench/peers.py MODEL.gguf [--repetitions 5] [--before FOLDER] [--neighbour] [--no-peer]

Measured are every instruction set that runs here, another checkout of qchat (--before), and llama.cpp from the wheel
`xllamacpp` (no AMX in it). One absolute number says little on a machine that others use too; what stands is each
repetition's ratio to the first column, taken moments apart. --neighbour has a process spin on one core all the while.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROMPT, GENERATED = 512, 32
SPIN = "while True: pass"
Work = Callable[[str, int], float]  # ("prompt" | "generate", tokens) to tokens a second


def serve_qchat(path: str, threads: int) -> Work:
    """Our engine, from the checkout that leads sys.path, with the instruction set of QCHAT_ISA."""
    import numpy as np

    from app.engine.model import load_model

    model = load_model(path, n_ctx=2 * PROMPT, threads=threads, notify=lambda text: print(text, file=sys.stderr))
    decoder = model.decoder
    tokens = np.random.default_rng(0).integers(0, model.spec.vocab_size, PROMPT).tolist()

    def work(kind: str, count: int) -> float:
        decoder.truncate(0)
        size = decoder.chunk if kind == "prompt" else 1
        start = time.perf_counter()
        for first in range(0, count, size):
            decoder.forward(tokens[first : min(first + size, count)], 1 if first + size >= count or size == 1 else 0)
        return count / (time.perf_counter() - start)

    return work


def serve_llama_cpp(path: str, threads: int) -> Work:
    """llama.cpp's server in this process; it times itself."""
    from tests.llama_cpp import LlamaCpp

    peer = LlamaCpp(Path(path), n_ctx=2 * PROMPT, threads=threads)

    def work(kind: str, count: int) -> float:
        prompt = list(range(1000, 1000 + (count if kind == "prompt" else 1)))
        options = {"n_predict": 1 if kind == "prompt" else count, "ignore_eos": True}
        timings = peer._complete(prompt, **options)["timings"]
        return float(timings["prompt_per_second" if kind == "prompt" else "predicted_per_second"])

    return work


def serve(name: str, folder: str, path: str, threads: int) -> None:
    """A child: answers lines "prompt 512" with tokens a second."""
    sys.path.insert(0, folder)
    work = (serve_llama_cpp if name == "llama.cpp" else serve_qchat)(path, threads)
    work("prompt", 64)
    work("generate", 4)
    print("ready", flush=True)
    for line in sys.stdin:
        kind, count = line.split()
        print(work(kind, int(count)), flush=True)


class Participant:
    """One engine in a process of its own."""

    def __init__(self, name: str, folder: Path, path: Path, threads: int, isa: str = "") -> None:
        self.name = name
        command = [sys.executable, "-P", __file__, "--serve", name, str(folder), str(path), str(threads)]
        environment = {key: value for key, value in os.environ.items() if key != "QCHAT_ISA"}
        environment |= {"QCHAT_ISA": isa} if isa else {}
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._answer()

    def measure(self, kind: str, count: int) -> float:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{kind} {count}\n")
        self._child.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()

    def _answer(self) -> str:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended early")
        return line


def table(participants: list[Participant], repetitions: int) -> None:
    for kind, count in (("prompt", PROMPT), ("generate", GENERATED)):
        speeds: dict[str, list[float]] = {one.name: [] for one in participants}
        for _ in range(repetitions):
            for one in participants:
                speeds[one.name].append(one.measure(kind, count))
        first = speeds[participants[0].name]
        print(f"\n{kind} {count} tokens    median   best   ratio to {participants[0].name}")
        for name, values in speeds.items():
            ratio = statistics.median(a / b for a, b in zip(values, first, strict=True))
            print(f"{name:20} {statistics.median(values):10.1f} {max(values):6.1f}   {ratio:.2f}")


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--before", type=Path, help="another checkout of qchat")
    parser.add_argument("--neighbour", action="store_true", help="beside a process that spins on one core")
    parser.add_argument("--no-peer", action="store_true", help="without llama.cpp")
    parser.add_argument("--isa", nargs="*", help="instruction sets; default: all that run here")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from app.engine.cpu.isa import available

    names = options.isa or [isa.name for isa in available()]
    participants = [Participant(name, ROOT, options.model, options.threads, name) for name in names]
    if options.before:
        participants.insert(0, Participant("before", options.before, options.model, options.threads))
    if not options.no_peer:
        participants.insert(0, Participant("llama.cpp", ROOT, options.model, options.threads))
    neighbour = subprocess.Popen([sys.executable, "-c", SPIN]) if options.neighbour else None
    try:
        table(participants, options.repetitions)
    finally:
        if neighbour is not None:
            neighbour.kill()
        for one in participants:
            one.close()


if __name__ == "__main__":
    main()
