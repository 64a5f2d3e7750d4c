"""Tokens become the rows of a packed table: the very numbers that `dequantise` reads from the file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.engine.formats import GGMLType, dequantise
from tests.engine.cuda.one_kernel.bare_kernels import BareKernels, Result
from tests.engine.cuda.one_kernel.mathematics import exactly
from tests.engine.cuda.one_kernel.products import columns_of, weights


def embeddings(kind: GGMLType, k: BareKernels) -> Iterator[Result]:
    """More tokens than a step has, as of a chunk: of both groups, the first and the last row, one of them twice."""
    table = weights(kind, 40, columns_of(kind))
    ids = np.array([39, 0, 31, 32, 5, 17, 39, 8, 1, 22], np.int32)
    out = k.room(len(ids) * table.columns * 4)
    step = k.step(
        {}, n_tokens=len(ids), d_model=table.columns, embedding=table, tokens=k.put(ids), residual=out
    )  # fmt: skip
    k.run_phase(k.step_sizes[0], step, -1, table.columns)
    wanted = dequantise(table.raw, kind, table.columns)[ids]
    yield "rows", k.read(out, wanted), exactly(wanted)
