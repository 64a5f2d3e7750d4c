"""The kernels for processors that this machine may not be: what instructions they use, and that they call nothing that
a process does not have.

On any machine those of AMX run too: the same code with its special instructions written out, vpdpbusd in plain LLVM IR
and the tile instructions in NumPy. Small steps take the way of AVX-512 VNNI. What that cannot show is that the
processor's instructions do what Intel's manual says; on a machine that has them, test_decoder runs the real ones.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from app.engine.cpu.compile import build, host_machine
from app.engine.cpu.isa import INSTRUCTION_SETS
from app.engine.cpu.library import Kernels, load_object
from app.engine.formats import FORMATS, GGMLType
from tests.engine.cpu.emulated_tiles import call_emulated_tiles
from tests.engine.cpu.other_processors import ARM_WITH_DOTPROD, SAPPHIRE_RAPIDS
from tests.engine.cpu.written_out import write_out
from tests.engine.decoders import all_logits, cpu_decoder, reference_logits
from tests.gguf_files import write_model

SETS = {isa.name: isa for isa in INSTRUCTION_SETS}
AMX, NEON = SETS["amx"], SETS["neon-dotprod"]
TOKENS = np.random.default_rng(9).integers(0, 250, 20).tolist()
QUANTISED = 8  # formats
OUTSIDE = {"syscall", "sched_yield"}  # of the C library: how threads wait


@pytest.fixture(scope="module")
def amx_ir() -> dict[str, str]:
    return SAPPHIRE_RAPIDS.kernel_ir(AMX)


@pytest.fixture(scope="module")
def emulated(amx_ir: dict[str, str]) -> Kernels:
    step = write_out(call_emulated_tiles(amx_ir["qchat_step"]), "llvm.x86.avx512.vpdpbusd.512")
    machine = host_machine(AMX)
    return load_object(AMX, machine.emit_object(build(amx_ir | {"qchat_step": step}, machine)))


@pytest.mark.parametrize("kind", FORMATS)
def test_amx_and_vnni_kernels_give_the_bits_of_the_reference(kind: GGMLType, emulated: Kernels, tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", types=kind.name, n_layers=1)
    wanted = reference_logits(path, TOKENS)
    with cpu_decoder(path, kernels=emulated, threads=2) as decoder:
        for chunk in (7, 20):  # without and with tiles, of which the second lies over most of the first
            decoder.truncate(0)
            assert np.array_equal(all_logits(decoder, TOKENS, chunk), wanted), chunk


def test_amx_kernels_use_the_instructions_and_nothing_from_outside(amx_ir: dict[str, str]) -> None:
    machine = SAPPHIRE_RAPIDS.target_machine()
    assembly = machine.emit_assembly(build(amx_ir, machine))
    assert len(re.findall(r"vpdpbusd\s.*%zmm", assembly)) >= QUANTISED * 8  # eight quads each
    assert len(re.findall(r"tdpbssd\s", assembly)) >= QUANTISED
    assert {"ldtilecfg", "tilerelease"} <= set(re.findall(r"ldtilecfg|tilerelease", assembly))
    called = set(re.findall(r"call\w*\s+([A-Za-z][\w.]*)", assembly)) | set(
        re.findall(r"\$([A-Za-z]\w*), %r", assembly)
    )
    data = {"tile_configuration"}
    assert {name for name in called if not name.startswith("_ZN")} - data <= OUTSIDE


def test_aarch64_kernels_use_sdot_and_call_nothing_but_linux() -> None:
    machine = ARM_WITH_DOTPROD.target_machine()
    assembly = machine.emit_assembly(build(ARM_WITH_DOTPROD.kernel_ir(NEON), machine))
    by_element = r"\tsdot\tv\d+\.4s, v\d+\.16b, v\d+\.4b\[[0-3]\]"
    assert len(re.findall(by_element, assembly)) >= QUANTISED * 8 * 2  # eight quads each, of two times four rows
    assert {"fmla", "fcvtl", "frintn", "isb"} <= set(re.findall(r"^\t([a-z]\w*)", assembly, re.MULTILINE))
    called = set(re.findall(r"\tbl?\t([A-Za-z]\w*)", assembly)) | set(re.findall(r":got:([A-Za-z]\w*)", assembly))
    assert {name for name in called if not name.startswith("_ZN")} == {"syscall"}
    assert re.search(r"\tmov\tw0, #98\b", assembly)  # its number of futex
