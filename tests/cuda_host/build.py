"""Compiles kernels and the emulator's runtime with g++, once for each version of their text.

A kernel file is compiled unmodified, in one of three builds: `plain`, `undefined` (-fsanitize=undefined, with handlers
of our own) and `race` (every access calls the runtime). A kernel is an `extern "C" __global__` function, and a file has
at most one `extern __shared__` array. What is compiled stays in the cache folder of the tests.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from tests.kept import TEST_CACHE, alone

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
_KEPT = TEST_CACHE / "cuda_host"
_FORGOTTEN_S = 7 * 86_400.0
_DYNAMIC_SHARED_BYTES = 227 * 1024  # the most that any GPU gives a block (sm_90)

_COMMON = ["-fPIC", "-fno-omit-frame-pointer", "-fno-exceptions", "-fno-rtti", "-ffp-contract=off"]
_RUNTIME = [
    *_COMMON,
    "-std=c++20",
    "-O2",
    "-fno-semantic-interposition",
    "-Wno-frame-address",
    "-shared",
    "-Wl,-Bsymbolic",
]
_KERNELS = [
    *_COMMON,
    *["-std=c++17", "-O1", "-g1", "-DQCHAT_CUDA_HOST", "-I", str(INCLUDE), "-include", "cuda_host.h"],
    # CUDA's code reads bytes as whatever it likes; unique or visible symbols would join two modules' shared memory
    *["-fno-strict-aliasing", "-fno-gnu-unique", "-fvisibility=hidden", "-fno-extern-tls-init"],
    *["-ftrivial-auto-var-init=pattern", "-Werror=uninitialized", "-Werror=return-type", "-Wno-unknown-pragmas"],
]
BUILDS = {
    "plain": [],
    "undefined": ["-fsanitize=undefined", "-fno-sanitize=vptr"],
    "race": [
        *["-fsanitize=thread", "-fno-tree-loop-distribute-patterns"],  # memset and memcpy would go unseen
        *["--param=tsan-distinguish-volatile=1", "--param=tsan-instrument-func-entry-exit=0"],
    ],
}
_KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+'
                     r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")  # fmt: skip
_DYNAMIC_SHARED = re.compile(
    r"extern\s+__shared__\s+(?:__align__\s*\(\d+\)\s*|alignas\s*\(\d+\)\s*)*([\w ]+?)\s+(\w+)\s*\["
)


class CompileError(Exception):
    """g++ refuses a kernel file, or it breaks a rule of the emulator."""


@cache
def runtime_library() -> Path:
    """The emulator itself: fibers, memory, checks. One for all modules of a process."""
    key = _key(_texts(HERE / "runtime"), _texts(INCLUDE), *_RUNTIME)
    return _once(
        f"runtime-{key}.so", lambda to: _compile([*_RUNTIME, str(HERE / "runtime" / "all.cpp"), "-o", str(to)])
    )


@cache
def module_library(source: Path, build: str, defines: tuple[str, ...] = (), include: tuple[Path, ...] = ()) -> Path:
    """The kernels of `source` as a library that `emulator.Module` loads. It is looked at once in a process.

    Raises:
        CompileError: with the compiler's own words.
    """
    options = [f"-D{define}" for define in defines] + [f"-I{folder}" for folder in include]
    text = _preprocessed(source, options)
    runtime = runtime_library()
    flags = [*_KERNELS, *BUILDS[build], *_machine_flags(), *options]
    key = _key(text, runtime.name, _texts(INCLUDE), *flags)

    def make(to: Path) -> None:
        unit = to.with_suffix(".cpp")
        unit.write_text(_translation_unit(source, text))
        object_file = to.with_suffix(".o")
        _compile([*flags, "-c", str(unit), "-o", str(object_file)])
        _compile(["-shared", "-Wl,-Bsymbolic", "-o", str(to), str(object_file), str(runtime)])

    return _once(f"{source.stem}-{build}-{key}.so", make)


def is_of_the_emulator(file: Path) -> bool:
    """Whether a line of it is none of the kernels' own."""
    return file.resolve().is_relative_to(INCLUDE) or file.resolve().is_relative_to(_KEPT)


def _translation_unit(source: Path, text: str) -> str:
    names = _KERNEL.findall(text)
    if not names:
        raise CompileError(f'{source} has no extern "C" __global__ function')
    arrays = dict.fromkeys((name, " ".join(kind.split())) for kind, name in _DYNAMIC_SHARED.findall(text))
    if len({name for name, _ in arrays}) > 1:
        raise CompileError(f"{source} has several extern __shared__ arrays: {', '.join(n for n, _ in arrays)}")
    dynamic, kind = next(iter(arrays), ("cuda_host_no_dynamic_shared", "char"))
    capacity = _DYNAMIC_SHARED_BYTES if arrays else 0
    kernels = "\n".join(f'    cuda_host::Entry<&{name}>::kernel("{name}"),' for name in dict.fromkeys(names))
    return f"""#include "{source.resolve()}"
alignas(1024) thread_local {kind} {dynamic}[{capacity or 1} / sizeof({kind})];
static char* cuda_host_dynamic_shared() {{ return reinterpret_cast<char*>({dynamic}); }}
static constexpr cuda_host::Kernel cuda_host_kernels[] = {{
{kernels}
}};
#ifdef __SANITIZE_THREAD__
constexpr bool cuda_host_instrumented = true;
#else
constexpr bool cuda_host_instrumented = false;
#endif
extern "C" __attribute__((visibility("default"))) const cuda_host::Module cuda_host_module = {{
    cuda_host_kernels, sizeof cuda_host_kernels / sizeof *cuda_host_kernels, cuda_host_dynamic_shared, {capacity},
    cuda_host_instrumented}};
"""


def _preprocessed(source: Path, options: Sequence[str]) -> str:
    """The file's text with its own includes, where __global__ and __shared__ still stand; CUDA's are left empty."""
    with tempfile.TemporaryDirectory() as empty:
        for header in INCLUDE.glob("*.h"):
            (Path(empty) / header.name).touch()
        command = ["-E", "-P", "-DQCHAT_CUDA_HOST", "-I", empty, *options, "-x", "c++", str(source)]
        return _compile(command)


@cache
def _machine_flags() -> tuple[str, ...]:
    """Without the instruction, each fma is a call of libm."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    return ("-mfma",) if re.search(r"^flags.*\bfma\b", cpuinfo, re.MULTILINE) else ()


def _compile(arguments: Sequence[str]) -> str:
    english = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(["g++", *arguments], capture_output=True, text=True, check=False, env=english)
    except FileNotFoundError:
        raise CompileError("the tests of CUDA kernels need g++ 11 or newer (the package g++)") from None
    if done.returncode:
        raise CompileError(done.stderr.strip())
    return done.stdout


@cache
def _texts(folder: Path) -> str:
    return "".join(f"{path.name}\0{path.read_text()}\0" for path in sorted(folder.rglob("*")) if path.is_file())


@cache
def _compiler_version() -> str:
    return _compile(["--version"])


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join([_compiler_version(), *parts]).encode()).hexdigest()[:16]


def _once(name: str, make: Callable[[Path], object]) -> Path:
    folder = _KEPT / Path(name).stem
    kept = folder / name
    with alone(folder):
        if not kept.exists():
            _forget_old()
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                made = Path(scratch) / name
                make(made)
                made.replace(kept)
        os.utime(folder)
    return kept


def _forget_old() -> None:
    for folder in _KEPT.iterdir():
        if folder.stat().st_mtime < time.time() - _FORGOTTEN_S:
            shutil.rmtree(folder, ignore_errors=True)
