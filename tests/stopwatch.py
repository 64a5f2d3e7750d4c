"""Promises of speed, checked on a machine that may have much else to do.

Time in which a thread stood ready and had no processor is the neighbours', not the program's: Linux counts it for each
thread. Where nobody counts it, all time is the program's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path


class Stopwatch:
    """Seconds since it was made, without those that the processes waited for a processor; by default this process."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids or (os.getpid(),)
        self._waited = self._waits()
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        passed = time.monotonic() - self._begun
        waits = self._waits()
        return passed - sum(wait - self._waited.get(thread, 0.0) for thread, wait in waits.items())

    def _waits(self) -> Mapping[Path, float]:
        """Seconds that each thread has waited in its life."""
        files = (file for pid in self._pids for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))
        return {file: waited for file in files if (waited := _waited_s(file)) is not None}


def _waited_s(file: Path) -> float | None:
    try:
        return int(file.read_text().split()[1]) / 1e9
    except OSError:  # the thread has ended
        return None
