"""Every kernel by itself against float64 mathematics, in every build of the emulator and by three schedules.

A row of the table fills buffers, runs one kernel, and yields what came out beside what should. mathematics.py has the
bounds; docs/numerics.md says where they come from.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from app.engine.formats import FORMATS, GGMLType
from tests.cuda_host.build import BUILDS
from tests.engine.cuda.one_kernel.activations import hidden_rows_of_a_chunk, rows_of_a_chunk
from tests.engine.cuda.one_kernel.bare_kernels import BareKernels, Row
from tests.engine.cuda.one_kernel.embeddings import embeddings
from tests.engine.cuda.one_kernel.heads import attention_of_a_chunk, attention_of_a_step, heads_of_a_chunk
from tests.engine.cuda.one_kernel.products import (
    gate_and_up_of_a_step,
    head_of_a_step,
    norm_and_qkv_of_a_step,
    output_projection_of_a_step,
    packing,
    packing_of_pairs,
    products_of_a_chunk,
    products_of_a_step,
    products_of_all_phases_of_a_chunk,
)

SCHEDULES = ("warp", "reversed", "random")

ROWS: dict[str, Row] = {
    **{f"pack_rows {kind.name}": partial(packing, kind) for kind in FORMATS},
    "pack_rows, pairs to halves": packing_of_pairs,
    **{f"step, embeddings of {kind.name}": partial(embeddings, kind) for kind in FORMATS},
    **{f"step, products of {kind.name}": partial(products_of_a_step, kind) for kind in FORMATS},
    "step, norm and Q K V": norm_and_qkv_of_a_step,
    "step, attention": attention_of_a_step,
    "step, output projection": output_projection_of_a_step,
    "step, gate and up to int8": partial(gate_and_up_of_a_step, GGMLType.Q8_0),
    "step, gate and up to floats": partial(gate_and_up_of_a_step, GGMLType.F16),
    "step, head": head_of_a_step,
    "prefill_prepare, first norm": partial(rows_of_a_chunk, 0),
    "prefill_prepare, attention": partial(rows_of_a_chunk, 2),
    "prefill_prepare, second norm": partial(rows_of_a_chunk, 3),
    "prefill_prepare, SiLU to int8": partial(hidden_rows_of_a_chunk, GGMLType.Q8_0),
    "prefill_prepare, SiLU to floats": partial(hidden_rows_of_a_chunk, GGMLType.F16),
    **{f"prefill_project {kind.name}": partial(products_of_a_chunk, kind) for kind in FORMATS},
    "prefill_project, several matrices": products_of_all_phases_of_a_chunk,
    "prefill_heads": partial(heads_of_a_chunk, True),
    "prefill_heads without bias and norm": partial(heads_of_a_chunk, False),
    "prefill_attend": attention_of_a_chunk,
}
CACHES = (("q8_0", 64), ("f32", 80))
ROWS_OF_A_CACHE = ("step, attention", "prefill_heads", "prefill_attend")


def check(row: Row, k: BareKernels, where: str) -> None:
    for name, got, wanted in row(k):
        assert got.shape == wanted.value.shape, f"{where}, {name}"
        off = np.abs(got - wanted.value)
        bad = ~(off <= wanted.bound)  # NaN is bad
        assert not bad.any(), (
            f"{where}, {name}: {bad.sum()} of {bad.size}, the first at {tuple(np.argwhere(bad)[0])}: "
            f"{got[bad][0]} for {wanted.value[bad][0]} +- {wanted.bound[bad][0]}"
        )


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", ROWS)
def test_a_kernel_is_as_near_to_float64_as_its_roundings_let_it(name: str, build: str) -> None:
    for schedule in SCHEDULES:
        check(ROWS[name], BareKernels(build, schedule), schedule)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("kv", "head_dim"), CACHES)
def test_other_caches_and_head_sizes(kv: str, head_dim: int, build: str) -> None:
    for name in ROWS_OF_A_CACHE:
        for schedule in SCHEDULES:
            check(ROWS[name], BareKernels(build, schedule, kv, head_dim), f"{name}, {schedule}")


def test_the_table_has_every_kernel() -> None:
    launched: set[str] = set()
    for row in ROWS.values():
        k = BareKernels("plain", "warp")
        check(row, k, "warp")
        launched |= k.launched
    assert launched == k.kernels
