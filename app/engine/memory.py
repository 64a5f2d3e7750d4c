"""This process's memory: what it holds, what it held at most, and giving back what it no longer needs.

A model is large and the machine may be small, so whatever loading needed for a moment is returned before weights take
its place. Each function does nothing where the system has no such call.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import resource
import sys
from pathlib import Path

_MADV_DONTNEED = 4
_MAPS, _STATUS = Path("/proc/self/maps"), Path("/proc/self/status")


def private_memory(n_bytes: int, *, huge_pages: bool = False) -> mmap.mmap:
    """Zeroed memory from the system, taken page by page as it is touched.

    `huge_pages`, for what is read from end to end: with small ones the processor waits for its page tables too.
    """
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return mmap.mmap(-1, n_bytes)
    memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if huge_pages and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def peak_rss_mb() -> float:
    """The largest resident memory of this program so far, in 10^6 bytes."""
    if _STATUS.exists():  # getrusage there also counts what the process was before it became this program
        in_kib = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text())
        if in_kib:
            return int(in_kib[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6


def give_back_unused() -> None:
    """Return freed heap memory to the system (glibc keeps it otherwise)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def release_pages_of(library: str) -> None:
    """Drop the code of a shared library from memory; the system reads it back from its file when it is used."""
    if not _MAPS.exists():
        return
    madvise = ctypes.CDLL(None).madvise
    for start, end in re.findall(rf"(?m)^(\w+)-(\w+) r-xp .*{re.escape(library)}", _MAPS.read_text()):
        first, last = int(start, 16), int(end, 16)
        madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_DONTNEED)
