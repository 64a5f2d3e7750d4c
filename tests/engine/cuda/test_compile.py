"""NVRTC makes machine code of every kernel for every GPU that qchat runs on: what it may take, what it must have.

A budget is what was found and a little more: a kernel that suddenly takes more registers, or keeps some of them in
memory, has changed for the worse in a way that no test of its results shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from app.engine.cuda.find import OLDEST
from app.engine.cuda.program import constants
from app.engine.cuda.weights import plan_weights
from app.engine.formats import GGMLType
from app.engine.gguf import read_gguf
from app.engine.spec import ModelSpec
from tests.conftest import DATA
from tests.engine.cuda.nvrtc import Compiled, compiled

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120")
REGISTERS = {
    "step_8": 128, "step_1": 128, "prefill_project": 200, "prefill_attend": 80, "prefill_heads": 64,
    "prefill_prepare": 64, "pack_rows": 80,
}  # fmt: skip
SPILLED = 128  # bytes a thread, stores and loads; only of a step, which has 16 warps a block and so 128 registers

IDP4A, IMMA, WIDE_LOAD, LOCAL_STORE = r"\bIDP\.4A", r"\bIMMA\.", r"\bLDG\.E\.128", r"\bSTL"
TO_HOST, FROM_HOST = r"\bSTG\.E\.64\.STRONG\.SYS", r"\bLDG\.E\.STRONG\.SYS"


def program(architecture: str, kinds: tuple[GGMLType, ...], steps: tuple[int, ...]) -> Compiled:
    with read_gguf(DATA / "tiny-qwen3-q8_0.gguf") as gguf:
        spec = ModelSpec.from_gguf(gguf)
        values = constants(spec, plan_weights(gguf, spec), "f16", 16, steps)
    return compiled(architecture, values | {"FORMATS": sum(1 << kind for kind in kinds)})


def check_budgets(made: Compiled) -> None:
    for kernel, usage in made.usage.items():
        assert usage.registers <= REGISTERS[kernel], kernel
        assert usage.spilled <= (SPILLED if kernel.startswith("step_") else 0), kernel


def check_denormals(sass: Mapping[str, str]) -> None:
    """CuPy's -ftz=true reaches no arithmetic but that inside division and root, whose results are exact anyway."""
    assert not re.search(r"\bF(FMA|MUL|ADD)\.FTZ", sass["prefill_project"])
    for text in sass.values():
        assert not re.search(r"\bFFMA\.FTZ", text)
        assert len(re.findall(r"\bFADD\.FTZ", text)) <= 8


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture(architecture: str) -> None:
    made = program(architecture, (GGMLType.Q8_0,), (8,))
    check_budgets(made)
    assert set(made.usage) == set(REGISTERS) - {"step_1"}
    sass = made.sass()
    blocks = 9  # eight of a whole segment, and the one in the loop of a shorter one
    assert len(re.findall(IDP4A, sass["step_8"])) == blocks * 8 * 8  # eight words, eight tokens
    assert len(re.findall(WIDE_LOAD, sass["step_8"])) >= blocks * 2
    products = 1 if architecture != "sm_75" else 4  # Turing needs four of its smaller ones
    assert len(re.findall(IMMA, sass["prefill_project"])) % (8 * products) == 0
    assert re.search(IMMA, sass["prefill_project"])
    assert len(re.findall(TO_HOST, sass["step_8"])) == 1  # a token is one word: nothing orders two
    assert len(re.findall(FROM_HOST, sass["step_8"])) == 1
    check_denormals(sass)


def test_formats_of_q4_k_m() -> None:
    made = program("sm_90", (GGMLType.Q4_K, GGMLType.Q6_K), (1,))
    check_budgets(made)
    sass = made.sass()["step_1"]
    assert len(re.findall(IDP4A, sass)) == 2 * 9 * 8
    assert len(re.findall(WIDE_LOAD, sass)) >= 2 * 9 + 6  # nibbles, scales, and the planes of pairs
    assert not re.search(LOCAL_STORE, sass)


def test_the_oldest_architecture_is_the_one_that_is_refused_below() -> None:
    assert ARCHITECTURES[0] == f"sm_{OLDEST[0]}{OLDEST[1]}"
