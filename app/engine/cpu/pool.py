"""The threads that run the kernels together. Between calls they sleep; inside a step they meet at its own barriers."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from app.engine.cpu.library import Entry, Kernels


class Pool:
    """`n_threads` threads, one of them the caller's, that enter the same kernel at once."""

    def __init__(self, kernels: Kernels, n_threads: int) -> None:
        self.n_threads = n_threads
        self._kernels = kernels  # the machine code lives as long as this object
        self._entry: Entry | None = None
        self._table = 0
        self._start = [threading.Semaphore(0) for _ in range(n_threads - 1)]
        self._done = threading.Semaphore(0)
        self._threads = [
            threading.Thread(target=self._work, args=(tid, start), name=f"qchat-step-{tid}", daemon=True)
            for tid, start in enumerate(self._start, 1)
        ]
        for thread in self._threads:
            thread.start()

    def step(self, context: int) -> None:
        """Run one step on every thread; returns when all are through."""
        self._run(self._kernels.step, context)

    def stream(self, table: int) -> None:
        """Read a block of memory with every thread."""
        self._run(self._kernels.stream, table)

    def _run(self, entry: Entry, table: int) -> None:
        self._entry, self._table = entry, table
        for start in self._start:
            start.release()
        entry(table, 0)
        for _ in self._start:
            self._done.acquire()

    def close(self) -> None:
        """End the threads."""
        self._entry = None
        for start in self._start:
            start.release()
        for thread in self._threads:
            thread.join()

    def _work(self, tid: int, start: threading.Semaphore) -> None:
        while True:
            start.acquire()
            if self._entry is None:
                return
            self._entry(self._table, tid)
            self._done.release()


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
