"""Our engine as a participant of a measurement, in a process of its own, from this checkout or another one."""

from __future__ import annotations

import hashlib
import mmap
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from child import Child, serve
from native_llama_cpp import CACHE
from participant import GENERATED, PROMPT, Speeds, room

ROOT = Path(__file__).resolve().parents[1]
STREAM_BYTES = 1 << 30  # three times the largest third-level cache that we met


def home_of(checkout: Path) -> Path:
    """A home for each checkout, or two versions would replace each other's compiled kernels."""
    return CACHE / "homes" / hashlib.sha256(str(checkout).encode()).hexdigest()[:8]


class QChat:
    """One instruction set ("" is the best that runs here) of the checkout in `folder`."""

    def __init__(
        self, model: Path, threads: int, max_depth: int, *, isa: str = "", name: str = "", folder: Path = ROOT
    ) -> None:
        arguments = [str(folder), str(model), str(threads), str(room(max_depth))]
        self._child = Child("qchat", __file__, arguments, {"QCHAT_ISA": isa, "QCHAT_HOME": str(home_of(folder))})
        self.name = name or f"qchat {self._child.ready['isa']}"

    def measure(self, depth: int) -> Speeds:
        return Speeds(**self._child.ask(kind="speeds", depth=depth))

    def stream_gb_s(self) -> float:
        """The memory limit now: 10^9 bytes a second that the threads of this process can read."""
        return float(self._child.ask(kind="limit")["gb_s"])

    def close(self) -> None:
        self._child.close()


class _Engine:
    """The child's side. Warms up before each measurement, as llama-bench does."""

    def __init__(self, path: str, threads: int, n_ctx: int) -> None:
        import numpy as np

        from app.engine.model import load_model

        self._model = load_model(path, n_ctx=n_ctx, threads=threads, notify=lambda text: print(text, file=sys.stderr))
        self._decoder = self._model.decoder
        self._tokens: list[int] = np.random.default_rng(0).integers(0, self._model.spec.vocab_size, n_ctx).tolist()
        self._block: mmap.mmap | None = None
        self.isa = self._model.isa

    def work(self, kind: str, depth: int = 0) -> dict[str, Any]:
        return {"gb_s": self._limit()} if kind == "limit" else self._speeds(depth)

    def _speeds(self, depth: int) -> dict[str, float]:
        decoder = self._decoder
        decoder.truncate(min(depth, decoder.length))
        self._read(depth)
        prompt_s = generate_s = 0.0
        for _ in range(2):
            decoder.truncate(depth)
            prompt_s = _seconds(lambda: self._read(depth + PROMPT))
        for count in (1, GENERATED):
            decoder.truncate(depth)
            generate_s = _seconds(lambda count=count: self._step(count))  # type: ignore[misc]
        return {"prompt": PROMPT / prompt_s, "generate": GENERATED / generate_s}

    def _read(self, end: int) -> None:
        """Prefill up to `end` tokens; logits of the last one only."""
        decoder = self._decoder
        for first in range(decoder.length, end, decoder.chunk):
            part = self._tokens[first : min(first + decoder.chunk, end)]
            decoder.forward(part, 1 if first + len(part) == end else 0)

    def _step(self, count: int) -> None:
        first = self._decoder.length
        for token in self._tokens[first : first + count]:
            self._decoder.forward([token], 1)

    def _limit(self) -> float:
        """The block lies in huge pages, as weights do."""
        import numpy as np

        from app.engine.benchmark import stream_gb_s
        from app.engine.memory import private_memory

        if self._block is None:
            self._block = private_memory(STREAM_BYTES, huge_pages=True)
            np.frombuffer(self._block, np.uint8)[:] = 1
        return stream_gb_s(self._decoder.pool, np.frombuffer(self._block, np.uint8))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__" and sys.argv[1:2] == ["--serve"]:
    checkout, model_file, thread_count, context = sys.argv[2:]
    sys.path.insert(0, checkout)
    if not os.environ["QCHAT_ISA"]:
        del os.environ["QCHAT_ISA"]
    engine = _Engine(model_file, int(thread_count), int(context))
    serve({"isa": engine.isa}, engine.work)
