"""The compiled kernels of this machine: found in the cache folder, compiled there once if need be, and loaded.

The object file's name holds a digest of everything that could change it: the sources of the kernels, the versions of
numba and llvmlite, the processor and the instruction set. Loading takes llvmlite alone, no numba.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llvmlite import binding

from app.engine.cpu.isa import InstructionSet, caution
from app.engine.memory import release_pages_of
from app.errors import QChatError
from app.lock import alone
from app.settings import paths, private_dir

COMPILE_SECONDS = 600
_POLL_S = 0.1  # within which it is seen that another qchat has compiled them
_QUIET_S = 1.0  # that somebody waits for it without being told why
# of the object file
ENTRIES = STEP, STREAM, LEAD, FOLLOW, PACK = "qchat_step", "qchat_stream", "qchat_lead", "qchat_follow", "qchat_pack"

Entry = Callable[[int, int], None]


@dataclass(frozen=True)
class Kernels:
    """The loaded entries of one instruction set; they run without the GIL.

    step, stream    addresses of what a team of threads runs
    lead, follow    how its threads run it, called as entry(team, tid)
    pack            packs rows in the calling thread, called as entry(table of Packing words, 0)
    """

    isa: InstructionSet
    step: int
    stream: int
    lead: Entry
    follow: Entry
    pack: Entry
    engine: Any  # keeps the machine code alive


def load_kernels(isa: InstructionSet, notify: Callable[[str], None]) -> Kernels:
    """The kernels for `isa`; `notify` is told when they must be compiled first, and what to be careful about.

    Of several qchats that need them at once one compiles, and the others wait for it.
    """
    path = object_path(isa)
    if not path.exists():
        private_dir(path.parent)
        with ExitStack() as held:
            with suppress(QChatError):  # a file system without locks: two may compile, and both do it right
                held.enter_context(alone(path.with_name(path.name + ".lock"), _wait(notify)))
            if not path.exists():
                notify("compiling kernels (once)")
                warning = caution(isa)
                if warning is not None:
                    notify(warning)
                _compile(isa, path)
    return load_object(isa, path.read_bytes())


def _wait(notify: Callable[[str], None]) -> Callable[[], None]:
    """What to do, again and again, while another qchat compiles them: tell so once it takes a while."""
    began, told = time.monotonic(), False

    def wait() -> None:
        nonlocal told
        if not told and time.monotonic() - began > _QUIET_S:
            told = True
            notify("waiting for another qchat that compiles the kernels (once)")
        time.sleep(_POLL_S)

    return wait


def load_object(isa: InstructionSet, code: bytes) -> Kernels:
    """Link an object file into this process."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), jit=True
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    release_pages_of("libllvmlite")  # 35 MB of compiler that was needed to link, and is read back if needed again
    entry = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
    step, stream, lead, follow, pack = (engine.get_function_address(name) for name in ENTRIES)
    return Kernels(isa, step, stream, entry(lead), entry(follow), entry(pack), engine)


def object_path(isa: InstructionSet) -> Path:
    """Where the compiled kernels of `isa` are or will be."""
    digest = hashlib.sha256()
    for source in sources():
        digest.update(source.read_bytes())
    for fact in (*ENTRIES, version("numba"), version("llvmlite"), binding.get_host_cpu_name()):
        digest.update(fact.encode())
    digest.update(binding.get_host_cpu_features().flatten().encode())
    return paths().cache_dir / "kernels" / f"{isa.name}-{digest.hexdigest()[:16]}.o"


def sources() -> list[Path]:
    """The files that the machine code is made from."""
    folder = Path(__file__).parent
    others = [folder / name for name in ("compile.py", "isa.py", "layout.py", "../formats.py")]
    return [*sorted((folder / "kernels").glob("*.py")), *others]


def _compile(isa: InstructionSet, path: Path) -> None:
    """Compile in a process of its own and drop the objects of earlier versions."""
    # -P and PYTHONPATH: this very package is imported, whatever an `app` folder in the working directory holds
    command = [sys.executable, "-P", "-m", "app.engine.cpu.compile", isa.name, str(path)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise QChatError(f"compiling the kernels took more than {COMPILE_SECONDS} s", "is the machine busy?") from error
    if done.returncode != 0 or not path.exists():
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise QChatError(f"the kernels could not be compiled: {last}", f"try: {' '.join(command)}")
    for old in path.parent.glob(f"{isa.name}-*.o"):
        if old != path:
            old.unlink(missing_ok=True)
