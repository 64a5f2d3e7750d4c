"""How much of the memory's speed decoding reaches, where the memory is shared with others: a token, a read, a token.

    python bench/share.py MODEL ... [--tokens 80] [--repetitions 5] [--threads 2]

Each token is followed by a read of as many bytes as it took from the file, by the same threads. Both meet the same
neighbours, so the ratio of their medians says what the engine adds; a limit that is the best of a few reads, as
bench/peers.py takes it, says what is lost to neighbours as well.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from models import model_path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from app.engine.benchmark import StreamRead
from app.engine.memory import private_memory
from app.engine.model import LoadedModel, load_model

WARM_UP = 8  # tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", help="names of bench/models.py, or files")
    parser.add_argument("--tokens", type=int, default=80)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for name in options.models:
        path = Path(name) if Path(name).exists() else model_path(name)
        model = load_model(path, threads=options.threads, notify=lambda text: print(text, file=sys.stderr))
        shares = [measure(model, options.tokens) for _ in range(options.repetitions)]
        model.close()
        share, best, speed, limit = (statistics.median(column) for column in zip(*shares, strict=True))
        print(
            f"{name}: {speed:.1f} tokens/s where {limit:.1f} GB/s could be read: {100 * share:.0f} % "
            f"(best against best {100 * best:.0f} %; repetitions {' '.join(f'{100 * one[0]:.0f}' for one in shares)})",
            flush=True,
        )


def measure(model: LoadedModel, tokens: int) -> tuple[float, float, float, float]:
    """(share of medians, share of the best, tokens a second, 10^9 bytes a second that could be read)."""
    decoder = model.decoder
    memory = np.frombuffer(private_memory(_bytes_of_a_token(model), huge_pages=True), np.uint8)
    memory[:] = 1
    read = StreamRead(decoder.pool, memory)
    decoder.truncate(0)
    decoder.forward(list(range(WARM_UP)), 1)
    steps, reads = [], []
    for token in range(tokens):
        steps.append(_seconds(lambda token=token: decoder.forward([token], 1)))  # type: ignore[misc]
        reads.append(_seconds(read))
    step, bare = np.median(steps), np.median(reads)
    return bare / step, min(reads) / min(steps), 1 / step, memory.nbytes / bare / 1e9


def _bytes_of_a_token(model: LoadedModel) -> int:
    """All layers and the head, as the file stores them; of an embedding of its own, one row is nothing."""
    tensors = model.gguf.tensors
    own_head = "output.weight" in tensors
    return sum(t.n_bytes for name, t in tensors.items() if not (own_head and name == "token_embd.weight"))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
