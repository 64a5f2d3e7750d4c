"""llama.cpp as a participant of a measurement: llama-bench built for this processor, or else the wheel `xllamacpp`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from child import Child, serve
from native_llama_cpp import llama_bench
from participant import GENERATED, PROMPT, Participant, Speeds, room

ROOT = Path(__file__).resolve().parents[1]


class LlamaBench:
    """The native build. Each measurement is a run of its own, which loads the file, warms up and measures once."""

    name = "llama.cpp"

    def __init__(self, program: Path, model: Path, threads: int) -> None:
        self._command = [str(program), "-m", str(model), "-t", str(threads), "-r", "1", "-o", "json"]
        self._command += ["-p", str(PROMPT), "-n", str(GENERATED)]

    def measure(self, depth: int) -> Speeds:
        done = subprocess.run([*self._command, "-d", str(depth)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise SystemExit(f"llama-bench ended with {done.returncode}: {last}")
        prompt, generate = json.loads(done.stdout)
        return Speeds(prompt["avg_ts"], generate["avg_ts"])

    def close(self) -> None:
        """No process lives between measurements."""


class LlamaCppWheel:
    """The wheel's server, which is kept and times itself. It has neither AMX nor much else of a new processor."""

    name = "llama.cpp (wheel)"

    def __init__(self, model: Path, threads: int, max_depth: int) -> None:
        self._child = Child(self.name, __file__, [str(model), str(threads), str(room(max_depth) + 1)], {})

    def measure(self, depth: int) -> Speeds:
        return Speeds(**self._child.ask(depth=depth))

    def close(self) -> None:
        self._child.close()


def llama_cpp(model: Path, threads: int, max_depth: int, tell: Callable[[str], None]) -> Participant:
    """The best llama.cpp that is here; `tell` hears when that is not the native build."""
    program = llama_bench()
    if program is not None:
        return LlamaBench(program, model, threads)
    tell("llama.cpp is the wheel's, not built for this processor; bench/native_llama_cpp.py builds one that is")
    return LlamaCppWheel(model, threads, max_depth)


class _Server:
    """The child's side of the wheel."""

    def __init__(self, path: str, threads: int, n_ctx: int) -> None:
        from tests.llama_cpp import LlamaCpp

        self._peer = LlamaCpp(Path(path), n_ctx=n_ctx, threads=threads)
        self._complete(PROMPT, 1, keep=False)

    def work(self, depth: int) -> dict[str, Any]:
        self._complete(depth + 1, 1, keep=True)
        prompt = self._complete(depth + PROMPT, 1, keep=True)
        self._complete(depth + 1, 1, keep=True)
        generate = self._complete(depth + 1, GENERATED, keep=True)
        return {"prompt": prompt["prompt_per_second"], "generate": generate["predicted_per_second"]}

    def _complete(self, n_prompt: int, n_predict: int, *, keep: bool) -> dict[str, float]:
        """The server's own timings; it keeps the prefix that it has in its cache."""
        prompt = [1000 + i % 5000 for i in range(n_prompt)]
        reply = self._peer._complete(prompt, n_predict=n_predict, ignore_eos=True, cache_prompt=keep)
        timings: dict[str, float] = reply["timings"]
        return timings


if __name__ == "__main__" and sys.argv[1:2] == ["--serve"]:
    model_file, thread_count, context = sys.argv[2:]
    sys.path.insert(0, str(ROOT))
    serve({}, _Server(model_file, int(thread_count), int(context)).work)
