"""Which instruction set the kernels use on this machine.

An instruction set decides how one exact integer dot product is computed and how many rows a vector holds; it never
changes a bit of a result. `QCHAT_ISA` forces one.
"""

from __future__ import annotations

import ctypes
import os
import platform
from dataclasses import dataclass
from functools import cache

from llvmlite import binding

from app.errors import SettingsError

# Linux, x86-64: the system call's number, its request, and the number of the tile registers (asm/prctl.h, asm/unistd.h)
ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA = 158, 0x1023, 18

# How to ask for sdot on AArch64: Linux has a bit in an entry of the auxiliary vector (asm/hwcap.h), macOS a name.
AT_HWCAP, HWCAP_ASIMDDP = 16, 1 << 20
FEAT_DOTPROD = b"hw.optional.arm.FEAT_DotProd"

X86, ARM = ("x86_64", "amd64"), ("aarch64", "arm64")  # names of the two kinds of processor, by system


@dataclass(frozen=True)
class InstructionSet:
    """A way to multiply weights: its name, rows a vector (lanes), the CPU features it needs (LLVM's names), and whether
    it multiplies prompts with matrix tiles."""

    name: str
    lanes: int
    features: frozenset[str]
    tiles: bool = False


# Best first. Every x86 set also relies on FMA and F16C (any x86-64-v3 processor).
BASE_X86 = frozenset({"avx2", "fma", "f16c"})
VNNI = BASE_X86 | {"avx512f", "avx512bw", "avx512vl", "avx512vnni"}
INSTRUCTION_SETS = (
    InstructionSet("amx", 16, VNNI | {"amx-tile", "amx-int8"}, tiles=True),
    InstructionSet("avx512-vnni", 16, VNNI),
    InstructionSet("avx-vnni", 8, BASE_X86 | {"avxvnni"}),
    InstructionSet("avx2", 8, BASE_X86),
    InstructionSet("neon-dotprod", 8, frozenset({"neon", "dotprod"})),
    InstructionSet("generic", 8, frozenset()),
)


def machine() -> str:
    """The kind of this processor, as the system names it."""
    return platform.machine().lower()


@cache
def host_features() -> frozenset[str]:
    """The CPU features of this machine, in LLVM's names."""
    found = {name for name, present in binding.get_host_cpu_features().items() if present}
    if machine() in ARM:  # LLVM does not look for dotprod, and on macOS for nothing; NEON is in every one
        found |= {"neon", "dotprod"} if has_dotprod() else {"neon"}
    return frozenset(found)


def has_dotprod() -> bool:
    """Ask the system whether this AArch64 processor has sdot; False where it cannot be asked."""
    if platform.system() == "Linux":
        getauxval = ctypes.CDLL(None).getauxval
        getauxval.argtypes, getauxval.restype = [ctypes.c_ulong], ctypes.c_ulong
        return bool(getauxval(AT_HWCAP) & HWCAP_ASIMDDP)
    if platform.system() == "Darwin":
        answer, size = ctypes.c_int(0), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
        failed = ctypes.CDLL(None).sysctlbyname(FEAT_DOTPROD, ctypes.byref(answer), ctypes.byref(size), None, 0)
        return not failed and answer.value == 1
    return False


@cache
def tiles_permitted() -> bool:
    """Ask Linux for the use of AMX tiles, which each process has to do once; False where it refuses."""
    if platform.system() != "Linux":
        return False
    try:
        return int(ctypes.CDLL(None).syscall(ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)) == 0
    except (OSError, AttributeError):  # a C library without it
        return False


def available() -> tuple[InstructionSet, ...]:
    """The instruction sets that run on this machine, best first."""
    if machine() in X86 and not host_features() >= BASE_X86:
        return ()
    usable = (isa for isa in INSTRUCTION_SETS if isa.features <= host_features())
    return tuple(isa for isa in usable if not isa.tiles or tiles_permitted())


def choose() -> InstructionSet:
    """The best instruction set of this machine, or the one that QCHAT_ISA names.

    Raises SettingsError when QCHAT_ISA names an unknown set or one that this machine lacks, or when the machine has
    none.
    """
    usable = available()
    if not usable:
        raise SettingsError("this processor lacks AVX2, FMA and F16C", "the CPU engine needs an x86-64-v3 processor")
    wanted = os.environ.get("QCHAT_ISA", "")
    if not wanted:
        return usable[0]
    for isa in usable:
        if isa.name == wanted:
            return isa
    names = ", ".join(isa.name for isa in usable)
    raise SettingsError(f"QCHAT_ISA={wanted!r} does not run on this machine", f"it can be one of: {names}")


def caution(isa: InstructionSet) -> str | None:
    """What to tell a person on whose kind of processor no test has run; None on x86-64."""
    if machine() in X86:
        return None
    return f"the {isa.name} kernels have never been tested on a real {machine()} processor"
