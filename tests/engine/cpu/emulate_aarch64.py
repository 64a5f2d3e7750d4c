"""Run the AArch64 kernels on a machine of another kind, in an emulator, and compare every bit with the reference.

    pip install unicorn
    python -m tests.engine.cpu.emulate_aarch64 [neon-dotprod | generic ...]

By hand, for the emulator is no dependency of qchat's tests. Unicorn is QEMU's processor without its machine: it gets
this process's memory at the same addresses, so a decoder of one thread runs as it is. What this cannot show is how
several threads wait for each other there, and any speed.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import unicorn
from llvmlite import binding
from unicorn import arm64_const as arm

from app.engine.cpu.compile import build
from app.engine.cpu.isa import INSTRUCTION_SETS, InstructionSet
from app.engine.cpu.library import ENTRIES, FOLLOW, LEAD, PACK, STEP, STREAM, Entry, Kernels
from app.engine.formats import FORMATS
from tests.engine.cpu.other_processors import ARM_WITH_DOTPROD
from tests.engine.decoders import all_logits, cpu_decoder, reference_logits
from tests.gguf_files import write_model

TOKENS = np.random.default_rng(5).integers(0, 250, 24).tolist()
STACK_BYTES = 1 << 20
FLOATS_ON = 3 << 20  # of CPACR_EL1: vector instructions are allowed
PAGE = 4096


def our_memory() -> Iterator[tuple[int, int]]:
    """Start and size of what this process may read."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, *_ = line.split()
        start, end = (int(part, 16) for part in span.split("-"))
        if rights.startswith("r") and "[v" not in line:  # but what the kernel put there
            yield start, end - start


def emulated(address: int, end: int) -> Entry:
    """A call of the AArch64 function at `address`, which returns when it jumps to `end`."""

    def call(table: int, tid: int) -> None:
        processor = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        processor.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)
        stack = np.zeros(STACK_BYTES, np.uint8)
        for start, size in our_memory():
            processor.mem_map_ptr(start, size, unicorn.UC_PROT_ALL, start)
        top = (stack.ctypes.data + STACK_BYTES) & -16
        registers = {
            arm.UC_ARM64_REG_CPACR_EL1: FLOATS_ON,
            arm.UC_ARM64_REG_SP: top,
            arm.UC_ARM64_REG_LR: end,
            arm.UC_ARM64_REG_X0: table,
            arm.UC_ARM64_REG_X1: tid,
        }
        for register, value in registers.items():
            processor.reg_write(register, value)
        processor.emu_start(address, end)

    return call


def load(isa: InstructionSet) -> Kernels:
    """The kernels of one set in this process's memory, linked for AArch64, and called through the emulator."""
    machine = ARM_WITH_DOTPROD.target_machine()
    code = machine.emit_object(build(ARM_WITH_DOTPROD.kernel_ir(isa), machine))
    engine = binding.create_mcjit_compiler(binding.parse_assembly(f'target triple = "{machine.triple}"'), machine)
    engine.add_object_file(binding.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    nowhere = np.zeros(2 * PAGE, np.uint8)
    end = (nowhere.ctypes.data + PAGE) & -PAGE
    at = {name: engine.get_function_address(name) for name in ENTRIES}
    lead, follow, pack = (emulated(at[name], end) for name in (LEAD, FOLLOW, PACK))
    return Kernels(isa, at[STEP], at[STREAM], lead, follow, pack, (engine, nowhere))


def differences(kernels: Kernels, folder: Path) -> Iterator[str]:
    """Every format, then every cache type, in small and large steps: what is not the reference's."""
    cases = [(kind.name, "f16", chunk) for kind, chunk in itertools.product(FORMATS, (7, 24))]
    cases += [("Q8_0", "f32", 5), ("Q8_0", "q8_0", 5)]
    for kind, kv, chunk in cases:
        path = write_model(folder / "model.gguf", types=kind, n_layers=2)
        with cpu_decoder(path, kernels=kernels, kv=kv) as decoder:
            same = np.array_equal(all_logits(decoder, TOKENS, chunk), reference_logits(path, TOKENS, kv))
        print(f"{kernels.isa.name:14}{kind:6}{kv:6}steps of {chunk:<4}{'the same bits' if same else 'OTHER BITS'}")
        if not same:
            yield f"{kernels.isa.name} {kind} {kv} {chunk}"


def main() -> None:
    names = sys.argv[1:] or ["neon-dotprod", "generic"]
    with tempfile.TemporaryDirectory() as folder:
        sets = [isa for isa in INSTRUCTION_SETS if isa.name in names]
        found = [line for isa in sets for line in differences(load(isa), Path(folder))]
    sys.exit(f"{len(found)} differ" if found else 0)


if __name__ == "__main__":
    main()
