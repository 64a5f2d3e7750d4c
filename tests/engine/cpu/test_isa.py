"""The kernels of the widest instruction set, AMX, on any machine: the same code with its special instructions written
out, vpdpbusd in plain LLVM IR and the tile instructions in NumPy. Small steps take the way of AVX-512 VNNI.

What this cannot show is that the processor's instructions do what Intel's manual says; on a machine that has them,
test_decoder runs the real ones.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from app.engine.cpu import isa
from app.engine.cpu.compile import build, host_machine, target_machine
from app.engine.cpu.isa import INSTRUCTION_SETS, available, choose
from app.engine.cpu.library import Kernels, load_object
from app.engine.formats import FORMATS, GGMLType
from app.errors import SettingsError
from tests.engine.cpu.emulated_tiles import call_emulated_tiles
from tests.engine.decoders import all_logits, cpu_decoder, reference_logits
from tests.gguf_files import write_model

ROOT = Path(__file__).parents[3]
AMX = INSTRUCTION_SETS[0]
INSTRUCTION = "llvm.x86.avx512.vpdpbusd.512"
TOKENS = np.random.default_rng(9).integers(0, 250, 20).tolist()


def written_out() -> str:
    """vpdpbusd: each int32 lane grows by the sum of four products of an unsigned and a signed byte."""
    columns = [", ".join(f"i32 {4 * lane + byte}" for lane in range(16)) for byte in range(4)]
    picks = "".join(
        f"%p{byte} = shufflevector <64 x i32> %p, <64 x i32> poison, <16 x i32> <{columns[byte]}>\n"
        for byte in range(4)
    )
    return f"""
define <16 x i32> @written_out(<16 x i32> %sum, <64 x i8> %unsigned, <64 x i8> %signed) {{
%u = zext <64 x i8> %unsigned to <64 x i32>
%s = sext <64 x i8> %signed to <64 x i32>
%p = mul <64 x i32> %u, %s
{picks}%a = add <16 x i32> %p0, %p1
%b = add <16 x i32> %p2, %p3
%c = add <16 x i32> %a, %b
%d = add <16 x i32> %sum, %c
ret <16 x i32> %d
}}
"""


@pytest.fixture(scope="module")
def amx_ir() -> list[str]:
    """The kernels' IR, made in a process in which numba aims at a processor that has the instruction."""
    script = (
        "import sys, json; from app.engine.cpu.compile import kernel_ir; from app.engine.cpu.isa import *;"
        "json.dump(kernel_ir(next(i for i in INSTRUCTION_SETS if i.name == 'amx')), sys.stdout)"
    )
    aim = {"NUMBA_CPU_NAME": "sapphirerapids", "NUMBA_CPU_FEATURES": "", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | aim, capture_output=True, text=True, check=True, timeout=300
    )
    texts: list[str] = json.loads(done.stdout)
    return texts


@pytest.fixture(scope="module")
def emulated(amx_ir: list[str]) -> Kernels:
    declaration = re.compile(rf"^declare .*@{re.escape(INSTRUCTION)}\(.*$", re.MULTILINE)
    step, *others = amx_ir
    assert declaration.search(step)
    step = declaration.sub("", call_emulated_tiles(step)).replace(INSTRUCTION, "written_out") + written_out()
    machine = host_machine()
    return load_object(AMX, machine.emit_object(build([step, *others], machine)))


@pytest.mark.parametrize("kind", FORMATS)
def test_amx_and_vnni_kernels_give_the_bits_of_the_reference(kind: GGMLType, emulated: Kernels, tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", types=kind.name, n_layers=1)
    wanted = reference_logits(path, TOKENS)
    with cpu_decoder(path, kernels=emulated, threads=2) as decoder:
        for chunk in (7, 20):  # without and with tiles, of which the second lies over most of the first
            decoder.truncate(0)
            assert np.array_equal(all_logits(decoder, TOKENS, chunk), wanted), chunk


def test_amx_kernels_use_the_instructions_and_nothing_from_outside(amx_ir: list[str]) -> None:
    machine = target_machine("sapphirerapids", "")
    assembly = machine.emit_assembly(build(amx_ir, machine))
    assert len(re.findall(r"vpdpbusd\s.*%zmm", assembly)) >= 8 * 8  # eight quantised formats, eight quads each
    assert len(re.findall(r"tdpbssd\s", assembly)) >= 8
    assert {"ldtilecfg", "tilerelease"} <= set(re.findall(r"ldtilecfg|tilerelease", assembly))
    called = set(re.findall(r"call\w*\s+([A-Za-z][\w.]*)", assembly)) | set(
        re.findall(r"\$([A-Za-z]\w*), %r", assembly)
    )
    data = {"tile_configuration"}
    assert {name for name in called if not name.startswith("_ZN")} - data <= {"syscall", "sched_yield"}


def test_tiles_are_left_alone_where_the_system_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa, "host_features", lambda: AMX.features)
    monkeypatch.setattr(isa, "tiles_permitted", lambda: True)
    assert available()[0] == AMX
    monkeypatch.setattr(isa, "tiles_permitted", lambda: False)
    assert [one.name for one in available()] == ["avx512-vnni", "avx2", "generic"]


def test_the_best_set_is_chosen_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCHAT_ISA", raising=False)
    assert choose() == available()[0]
    monkeypatch.setenv("QCHAT_ISA", "generic")
    assert choose().name == "generic"


@pytest.mark.parametrize("name", ["sse9", "AVX2", "avx512-vnni "])
def test_an_unknown_set_is_refused_with_those_that_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCHAT_ISA", name)
    with pytest.raises(SettingsError, match="does not run") as refused:
        choose()
    assert "generic" in str(refused.value.hint)
