"""Compile the kernels to one object file: `python -m app.engine.cpu.compile ISA OUT`.

This runs in a process of its own, once per machine and version, for two reasons: the compiler's memory never counts
against a model, and the program that answers questions needs neither numba nor its half second of import (see
docs/decisions/). numba turns the kernels into LLVM IR; llvmlite turns the IR into machine code for this processor.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from llvmlite import binding
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext

from app.engine.cpu.isa import INSTRUCTION_SETS, InstructionSet
from app.engine.cpu.kernels.pack_rows import pack_rows
from app.engine.cpu.kernels.step import define_step
from app.engine.cpu.kernels.stream import stream_read
from app.engine.cpu.kernels.team import follow, lead
from app.engine.cpu.library import FOLLOW, LEAD, PACK, STEP, STREAM


def skip_machine_code() -> None:
    """Keep numba from making machine code of each function and all that it calls: two thirds of the time.

    LLVM IR is all that is wanted here. numba wants an object to call, different for each function; nobody calls it.
    """
    context, library = cast(Any, CPUContext), cast(Any, JITCodeLibrary)
    context.get_executable = lambda *_: [].append
    library._finalize_specific = lambda _: None


def kernel_ir(isa: InstructionSet) -> dict[str, str]:
    """Unoptimised LLVM IR of each entry and all that it calls, by the entry's name."""
    skip_machine_code()
    entries = ((STEP, define_step(isa)), (STREAM, stream_read), (LEAD, lead), (FOLLOW, follow), (PACK, pack_rows))
    return {name: entry_ir(name, kernel) for name, kernel in entries}


def entry_ir(name: str, kernel: Any) -> str:
    """LLVM IR of `void name(int64 table, int64 tid)`, which calls the kernel of that signature."""
    signature = (types.int64, types.int64)
    kernel.compile(signature)
    compiled = kernel.overloads[signature]
    with global_compiler_lock:
        compiled.library.finalize()
    # numba's functions return a status and take two addresses for results and exceptions; kernels use none of them.
    return f"""{compiled.library.get_llvm_str()}
define void @{name}(i64 %table, i64 %tid) {{
  %result = alloca ptr
  %exception = alloca ptr
  %status = call i32 @{compiled.fndesc.mangled_name}(ptr %result, ptr %exception, i64 %table, i64 %tid)
  ret void
}}
"""


def optimise(module: Any, entries: Collection[str], machine: Any) -> None:
    """Whole-program optimisation: all but the entries become private first, so that what cannot happen goes away."""
    for function in module.functions:
        if not function.is_declaration and function.name not in entries:
            function.linkage = "internal"
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)


def host_machine(isa: InstructionSet) -> Any:
    """An LLVM target machine for this processor, which has `isa` (LLVM may not know that), with full optimisation."""
    features = binding.get_host_cpu_features()
    features.update(dict.fromkeys(isa.features, True))
    return target_machine(binding.get_host_cpu_name(), features.flatten())


def target_machine(cpu: str, features: str) -> Any:
    """An LLVM target machine for any processor of this family."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=3, jit=True)


def build(kernels: Mapping[str, str], machine: Any) -> Any:
    """One optimised LLVM module of the IR of entries; `machine.emit_object` and `emit_assembly` take it from there."""
    module, *others = (binding.parse_assembly(text) for text in kernels.values())
    for other in others:
        module.link_in(other)
    optimise(module, kernels, machine)
    return module


def main() -> None:
    """Write the object under its final name in one step, so that no other process sees half of it."""
    name, out = sys.argv[1], Path(sys.argv[2])
    gc.disable()  # a fifth of the time, looking for garbage in trees that all live to the end
    isa = next(isa for isa in INSTRUCTION_SETS if isa.name == name)
    machine = host_machine(isa)
    part = out.with_name(f"{out.name}.{os.getpid()}.part")
    part.write_bytes(machine.emit_object(build(kernel_ir(isa), machine)))
    part.replace(out)


if __name__ == "__main__":
    main()
