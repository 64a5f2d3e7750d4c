"""Kernels for processors that this machine is not: their LLVM IR, and LLVM target machines for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llvmlite import binding

from app.engine.cpu.isa import InstructionSet

ROOT = Path(__file__).parents[3]

# In a process of its own, Python and LLVM are told that they run on the other processor; then numba believes it too.
SCRIPT = """
import json, platform, sys
from llvmlite import binding
name, machine, triple = sys.argv[1:]
platform.machine = lambda: machine
binding.initialize_all_targets()
binding.initialize_all_asmprinters()
binding.get_process_triple = binding.get_default_triple = lambda: triple
from app.engine.cpu.compile import kernel_ir
from app.engine.cpu.isa import INSTRUCTION_SETS
json.dump(kernel_ir(next(isa for isa in INSTRUCTION_SETS if isa.name == name)), sys.stdout)
"""


@dataclass(frozen=True)
class Processor:
    """One that LLVM knows: the names of its kind to the system and to LLVM, and its own."""

    machine: str
    triple: str
    cpu: str
    features: str = ""

    def kernel_ir(self, isa: InstructionSet) -> dict[str, str]:
        """The IR of the kernels, as that processor would make it."""
        aim = {"NUMBA_CPU_NAME": self.cpu, "NUMBA_CPU_FEATURES": self.features, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-P", "-c", SCRIPT, isa.name, self.machine, self.triple],
            env=os.environ | aim, capture_output=True, text=True, check=True,
        )  # fmt: skip
        texts: dict[str, str] = json.loads(done.stdout)
        return texts

    def target_machine(self) -> Any:
        """What emits its machine code."""
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        target = binding.Target.from_triple(self.triple)
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, jit=True)


SAPPHIRE_RAPIDS = Processor("x86_64", "x86_64-unknown-linux-gnu", "sapphirerapids")
ARM_WITH_DOTPROD = Processor("aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon,+dotprod")  # the least of them
