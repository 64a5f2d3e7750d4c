"""c(T): what a step of T tokens takes over a plain one, which is what speculation has to earn back.

    python bench/step_cost.py MODEL ... [--repetitions 9] [--threads 2] [--depth 64]

Each step gives the logits of all its tokens. Before each size the plain step is taken anew, so both meet the same
neighbours; a ratio is of the medians of five steps, and printed are the medians of the ratios.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from models import model_path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from app.engine.decoder import Decoder
from app.engine.model import load_model

SIZES = range(2, 9)
STEPS = 5  # of one size, one after the other


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", help="names of bench/models.py, or files")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--depth", type=int, default=64, help="tokens in the cache before each step")
    options = parser.parse_args()
    for name in options.models:
        path = Path(name) if Path(name).exists() else model_path(name)
        n_ctx = options.depth + SIZES[-1]
        model = load_model(path, threads=options.threads, n_ctx=n_ctx, notify=lambda text: print(text, file=sys.stderr))
        tokens = np.random.default_rng(0).integers(0, model.spec.vocab_size, n_ctx).tolist()
        for start in range(0, options.depth, model.decoder.chunk):
            model.decoder.forward(tokens[start : min(start + model.decoder.chunk, options.depth)], 0)
        for rows in (1, *SIZES):
            _step_s(model.decoder, tokens, options.depth, rows)  # the first of a size makes room
        plain, ratios = [], []
        for _ in range(options.repetitions):
            pairs = [[_step_s(model.decoder, tokens, options.depth, rows) for rows in (1, size)] for size in SIZES]
            plain += [one for one, _ in pairs]
            ratios.append([several / one for one, several in pairs])
        model.close()
        costs = (statistics.median(column) for column in zip(*ratios, strict=True))
        told = "  ".join(f"c({size}) {cost:.2f}" for size, cost in zip(SIZES, costs, strict=True))
        print(f"{name}: {told}  (a plain step {1e3 * statistics.median(plain):.2f} ms)", flush=True)


def _step_s(decoder: Decoder, tokens: list[int], depth: int, rows: int) -> float:
    """Median seconds of a step of so many tokens after the first `depth`."""
    taken = []
    for _ in range(STEPS):
        decoder.truncate(depth)
        start = time.perf_counter()
        decoder.forward(tokens[depth : depth + rows], rows)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
