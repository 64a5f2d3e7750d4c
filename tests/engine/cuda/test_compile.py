"""NVRTC makes machine code of every kernel for every GPU that qchat runs on: what it may take, what it must have.

Every architecture has two formats, and one architecture has all; bench/cuda_registers.py tells of the others. A budget
is what was found and a little more: a kernel that suddenly takes more registers, or keeps some of them in memory, has
changed for the worse in a way that no test of its results shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from app.engine.cuda.find import OLDEST
from app.engine.cuda.read_speed import MAIN as READ
from app.engine.formats import FORMATS, GGMLType
from tests.engine.cuda.nvrtc import compiled
from tests.engine.cuda.programs import ARCHITECTURES, program


@dataclass(frozen=True)
class Budget:
    """Of a format: 16-byte loads of weights in the code of a step; bytes of local memory of a step, and of what goes
    there and back for want of registers; registers of the products of a prompt."""

    loads: int
    local: int
    spilled: int
    products: int


BUDGETS = {  # a format with fifth bits has an array of their planes in local memory, for a short segment
    GGMLType.F32: Budget(4, 0, 0, 200),
    GGMLType.F16: Budget(4, 0, 0, 176),
    GGMLType.BF16: Budget(4, 0, 0, 176),
    GGMLType.Q4_0: Budget(12, 0, 0, 136),
    GGMLType.Q4_1: Budget(14, 16, 32, 184),
    GGMLType.Q5_0: Budget(14, 32, 0, 168),
    GGMLType.Q5_1: Budget(16, 56, 32, 200),
    GGMLType.Q8_0: Budget(21, 32, 96, 160),
    GGMLType.Q4_K: Budget(12, 0, 0, 208),
    GGMLType.Q5_K: Budget(14, 56, 96, 192),
    GGMLType.Q6_K: Budget(16, 24, 96, 184),
}
REGISTERS = {  # whatever the format; a block of a step has 16 warps, and so 128 registers a thread
    "step_8": 128, "step_1": 128, "prefill_attend": 80, "prefill_heads": 64, "prefill_prepare": 64, "pack_rows": 80,
}  # fmt: skip

EVERYWHERE = {GGMLType.Q8_0: 8, GGMLType.Q4_K: 1}  # and the size of step that is compiled
EVERYTHING = "sm_90"
PROGRAMS = [
    *((architecture, kind, step) for kind, step in EVERYWHERE.items() for architecture in ARCHITECTURES),
    *((EVERYTHING, kind, 8) for kind in FORMATS if kind not in EVERYWHERE),
]

IDP4A, IMMA, WIDE_LOAD, LOCAL_STORE = r"\bIDP\.4A", r"\bIMMA\.(\d+)\.S8\.S8", r"\bLDG\.E\.128", r"\bSTL"
TO_HOST, FROM_HOST = r"\bSTG\.E\.64\.STRONG\.SYS", r"\bLDG\.E\.STRONG\.SYS"
FLOATS = (GGMLType.F32, GGMLType.F16, GGMLType.BF16)
BLOCKS = 9  # of 32 columns in the code of a product: eight of a whole segment, and the one in the loop of a shorter one
PRODUCTS = {"16832": 24, "16816": 48, "8816": 96}  # instructions of each shape (m, n, k) that the same numbers take


def shape_of_products(architecture: str, kind: GGMLType) -> str:
    """Turing has only the smallest; Q6_K has a scale for 16 columns."""
    return "8816" if architecture == "sm_75" else "16816" if kind == GGMLType.Q6_K else "16832"


def check_denormals(sass: Mapping[str, str]) -> None:
    """CuPy's -ftz=true reaches no arithmetic but that inside division and root, whose results are exact anyway."""
    assert not re.search(r"\bF(FMA|MUL|ADD)\.FTZ", sass["prefill_project"])
    for text in sass.values():
        assert not re.search(r"\bFFMA\.FTZ", text)
        assert len(re.findall(r"\bFADD\.FTZ", text)) <= 8


@pytest.mark.parametrize(
    ("architecture", "kind", "step"), PROGRAMS, ids=[f"{a}-{kind.name}-{step}" for a, kind, step in PROGRAMS]
)
def test_a_program_is_within_its_budget(architecture: str, kind: GGMLType, step: int) -> None:
    made, budget, name = program(architecture, kind, (step,)), BUDGETS[kind], f"step_{step}"
    assert set(made.usage) == {*REGISTERS, "prefill_project"} - {"step_1" if step == 8 else "step_8"}
    for kernel, usage in made.usage.items():
        assert usage.registers <= (budget.products if kernel == "prefill_project" else REGISTERS[kernel]), kernel
        assert usage.local <= (budget.local if kernel == name else 0), kernel
        assert usage.spilled <= (budget.spilled if kernel == name else 0), kernel

    sass = made.sass()
    assert len(re.findall(WIDE_LOAD, sass[name])) >= budget.loads
    assert bool(re.search(LOCAL_STORE, sass[name])) == (made.usage[name].local > 0)
    words = 0 if kind in FLOATS else 8  # of a block, each multiplied with one of every token
    assert len(re.findall(IDP4A, sass[name])) == BLOCKS * words * step
    assert len(re.findall(TO_HOST, sass[name])) == 1  # a token is one word: nothing orders two
    assert len(re.findall(FROM_HOST, sass[name])) == 1
    shape, products = shape_of_products(architecture, kind), re.findall(IMMA, sass["prefill_project"])
    assert products == ([] if kind in FLOATS else [shape] * PRODUCTS[shape])
    check_denormals(sass)


def test_the_limit_is_measured_with_16_bytes_a_lane_and_several_on_their_way() -> None:
    made = compiled("sm_90", {}, READ)
    assert made.usage["read_memory"].local == 0
    order = re.findall(rf"{WIDE_LOAD}|\bIADD3", made.sass()["read_memory"])
    assert max(len(run) for run in re.findall(r"L+", "".join(each[0] for each in order))) >= 4


def test_the_oldest_architecture_is_the_one_that_is_refused_below() -> None:
    assert ARCHITECTURES[0] == f"sm_{OLDEST[0]}{OLDEST[1]}"
