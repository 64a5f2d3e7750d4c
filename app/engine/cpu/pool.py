"""The threads that run the kernels together. Between calls they sleep; inside a step they meet at its own barriers."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np

from app.engine.cpu.buffers import aligned
from app.engine.cpu.layout import Team
from app.engine.cpu.library import Kernels


class Pool:
    """`n_threads` threads, one of them the caller's, that enter the same kernel at once."""

    def __init__(self, kernels: Kernels, n_threads: int) -> None:
        self.n_threads = n_threads
        self._kernels = kernels  # the machine code lives as long as this object
        self._team = aligned(Team.SIZE // 8, np.int64)
        self._team[Team.FOLLOWERS // 8] = n_threads - 1
        self._threads = [
            threading.Thread(target=self._follow, args=(tid,), name=f"qchat-step-{tid}", daemon=True)
            for tid in range(1, n_threads)
        ]
        for thread in self._threads:
            thread.start()

    def step(self, context: int) -> None:
        """Run one step on every thread; returns when all are through."""
        self._run(self._kernels.step, context)

    @property
    def aside(self) -> int:
        """Address of the word that `stand_aside` sets."""
        return int(self._team.ctypes.data) + Team.ASIDE

    def stand_aside(self, wanted: bool) -> None:
        """While `wanted`, steps leave a core to whoever draws a screen; one that runs does so at its next barrier.

        Nothing changes where there are more cores than threads. From any thread.
        """
        self._team[Team.ASIDE // 8] = wanted and self.n_threads >= usable_cpus()

    def stream(self, table: int) -> None:
        """Read a block of memory with every thread."""
        self._run(self._kernels.stream, table)

    def close(self) -> None:
        """End the threads; nothing can be run after that."""
        if self._threads:
            self._run(0, 0)
        while self._threads:
            self._threads.pop().join()

    def _run(self, entry: int, table: int) -> None:
        self._team[Team.ENTRY // 8], self._team[Team.TABLE // 8] = entry, table
        self._kernels.lead(self._team.ctypes.data, 0)

    def _follow(self, tid: int) -> None:
        self._kernels.follow(self._team.ctypes.data, tid)


def usable_cpus() -> int:
    """Processors that this process may use, hyper-threads counted one by one."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return max(1, os.cpu_count() or 1)


def physical_cores() -> int:
    """Cores that this process may use, counting the hyper-threads of one core once."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # not Linux
        return max(1, os.cpu_count() or 1)
    siblings = set()
    for cpu in allowed:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings.add(topology.read_text() if topology.exists() else str(cpu))
    return max(1, len(siblings))
