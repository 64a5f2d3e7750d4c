"""The best tokens of rows of logits, which no rounding can change."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.engine.cuda.one_kernel.bare_kernels import BareKernels, Result, normal
from tests.engine.cuda.one_kernel.mathematics import exactly


def best_of_rows(k: BareKernels) -> Iterator[Result]:
    """The lowest id first among equal logits; rows that lie further apart than they are long."""
    rows, n, count = 3, 1000, 5
    logits = normal(0, rows, n + 8)
    logits[0, [17, 600, 999]] = 9.0  # equal ones
    logits[1, :n] = -np.abs(logits[1, :n])
    logits[1, [3, 4]] = -0.0, 0.0  # equal too
    logits[:, n:] = 100.0  # past the end of a row
    ids, best = k.room(rows * count * 4), k.room(rows * count * 4)
    k.launch("best_of_all", (rows,), 256, k.put(logits), n, n + 8, count, ids, best)
    wanted = np.argsort(-logits[:, :n].astype(np.float64), axis=1, kind="stable")[:, :count]
    yield "ids", k.read(ids, np.int32).reshape(rows, count), exactly(wanted)
    values = np.take_along_axis(logits, wanted, axis=1)
    yield "logits", k.read(best, np.float32).reshape(rows, count), exactly(values)
