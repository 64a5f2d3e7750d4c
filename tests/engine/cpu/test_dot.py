"""`dot` of every instruction set is exact: NumPy's int64 sums for random bytes and for the largest there can be.

Each set is compiled for a processor that has what it asks for and nothing more. NEON's is checked twice where there is
none: in assembly, and with its instruction written out.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite import binding
from numpy.typing import NDArray

from app.engine import numerics
from app.engine.cpu.compile import build, target_machine
from app.engine.cpu.isa import INSTRUCTION_SETS, InstructionSet, available, machine
from app.engine.cpu.kernels.dot import SIGNED, shift_of
from tests.engine.cpu.dot_kernels import asked_of, entry_name
from tests.engine.cpu.written_out import write_out

ROOT = Path(__file__).parents[3]
SETS = {isa.name: isa for isa in INSTRUCTION_SETS}
NEON, SDOT = SETS["neon-dotprod"], "llvm.aarch64.neon.sdot.v4i32.v16i8"
NAMED_FOR = {
    "amx": r"vpdpbusd\s.*%zmm",
    "avx512-vnni": r"vpdpbusd\s.*%zmm",
    "avx-vnni": r"\{vex\}\s+vpdpbusd\s.*%ymm",
    "avx2": r"vpmaddubsw\s.*%ymm",
    "neon-dotprod": r"sdot\s.*\.4b\[3\]",
}
LARGEST = 127  # of |x|
CASES = 3000


@pytest.fixture(scope="module")
def dot_ir() -> dict[str, dict[str, str]]:
    """IR of `dot` loops of all sets that run here, and of NEON's, by set and entry."""
    command = [sys.executable, "-m", "tests.engine.cpu.dot_kernels", *{*(isa.name for isa in available()), NEON.name}]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    texts: dict[str, dict[str, str]] = json.loads(done.stdout)
    return texts


def lowest_machine(isa: InstructionSet) -> Any:
    """The least processor of this machine's kind that the set is chosen on."""
    base = "x86-64-v3" if machine() in ("x86_64", "amd64") else "generic"
    return target_machine(base, ",".join(f"+{feature}" for feature in sorted(isa.features)))


def cases(limit: int, quads: int, lanes: int) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Weights [cases, quads, lanes, 4] and activations [cases, quads, 4]: random, extreme, and all of them largest."""
    rng = np.random.default_rng(limit)
    low, high = (-128, 127) if limit == SIGNED else (0, limit)
    shape, x_shape = (CASES, quads, lanes, 4), (CASES, quads, 4)
    weights, x = rng.integers(low, high + 1, shape), rng.integers(-LARGEST, LARGEST + 1, x_shape)
    extreme = slice(CASES // 3, 2 * CASES // 3)
    weights[extreme] = rng.choice([low, low + 1, 0, high - 1, high], shape)[extreme]
    x[extreme] = rng.choice([-LARGEST, 0, LARGEST], x_shape)[extreme]
    signs = rng.choice([-1, 1], (CASES, 1, 1))  # whole cases of one sign, so that nothing cancels
    weights[extreme.stop :] = rng.choice([low, high], (CASES, 1, 1, 1))[extreme.stop :]
    x[extreme.stop :] = (LARGEST * signs)[extreme.stop :]
    return weights.astype(np.int8), x.astype(np.int8)


def check(isa: InstructionSet, texts: dict[str, str]) -> None:
    """Run `dot` as every format does and compare."""
    compiler = lowest_machine(isa)
    engine = binding.create_mcjit_compiler(build(texts, compiler), compiler)
    engine.finalize_object()
    for kind, (limit, quads) in asked_of(isa).items():
        weights, x = cases(limit, quads, isa.lanes)
        exact = np.einsum("cqlb,cqb->cl", weights.astype(np.int64), x.astype(np.int64))
        begin = np.random.default_rng(0).integers(-(2**30), 2**30, CASES)
        starts = (begin - shift_of(isa, limit) * x.sum(axis=(1, 2), dtype=np.int64)).astype(np.int32)
        sums = np.zeros((CASES, isa.lanes), np.int32)
        table = np.array([*(a.ctypes.data for a in (weights, x, starts, sums)), CASES], np.int64)
        run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(
            engine.get_function_address(entry_name(limit, quads))
        )
        run(table.ctypes.data, 0)
        assert np.array_equal(sums, exact + begin[:, np.newaxis]), kind.name


@pytest.mark.parametrize("isa", available(), ids=lambda isa: isa.name)
def test_dot_is_exact_for_every_format(isa: InstructionSet, dot_ir: dict[str, dict[str, str]]) -> None:
    check(isa, dot_ir[isa.name])


@pytest.mark.parametrize("isa", [isa for isa in available() if isa.name in NAMED_FOR], ids=lambda isa: isa.name)
def test_dot_uses_the_instruction_that_its_set_is_named_for(
    isa: InstructionSet, dot_ir: dict[str, dict[str, str]]
) -> None:
    compiler = lowest_machine(isa)
    for name, text in dot_ir[isa.name].items():
        assembly = compiler.emit_assembly(build({name: text}, compiler))
        assert re.search(NAMED_FOR[isa.name], assembly), name
        assert isa.lanes == 16 or "%zmm" not in assembly


def test_neon_dot_is_exact_with_its_instruction_written_out(dot_ir: dict[str, dict[str, str]]) -> None:
    texts = {name: write_out(text, SDOT) for name, text in dot_ir[NEON.name].items()}
    check(InstructionSet(NEON.name, NEON.lanes, frozenset()), texts)


def test_activations_never_reach_what_avx2_cannot_negate() -> None:
    """-128 has no opposite among the signed bytes; rounding x * (127 / max) must never give it."""
    rng = np.random.default_rng(3)
    rows = (rng.standard_normal((20_000, 32)) * np.exp2(rng.integers(-100, 100, (20_000, 1)))).astype(np.float32)
    rows[:, 0] = -np.abs(rows).max(axis=1)
    assert np.abs(numerics.quantise(rows).values).max() == LARGEST
