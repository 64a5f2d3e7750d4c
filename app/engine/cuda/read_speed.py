"""How fast a GPU reads memory and does nothing else: the limit of decoding, which reads every weight once a token."""

from __future__ import annotations

import time

import numpy as np

from app.engine.cuda.device import Buffer, Device
from app.engine.cuda.sources import FOLDER

MAIN = FOLDER / "read.cu"
THREADS, BLOCKS = 256, 8  # of a block, and blocks a multiprocessor
VECTOR = 16  # bytes that a thread reads at a time
LEAST_BYTES = 8 << 30  # of a reading, in several passes if need be: what a launch costs is lost in it


class ReadSpeed:
    """Reads `memory`, most of all the weights themselves, over and over."""

    def __init__(self, device: Device, memory: Buffer) -> None:
        self._device, self._memory = device, memory
        self._passes = -(-LEAST_BYTES // memory.n_bytes)
        self._grid = device.facts.n_multiprocessors * BLOCKS
        self._sums = device.allocate(self._grid * THREADS * 4)
        self._program = device.compile({}, MAIN)

    def gb_s(self) -> float:
        """The best of three readings, in 10^9 bytes a second."""
        self._read(1)
        return self._passes * self._memory.n_bytes / min(self._seconds() for _ in range(3)) / 1e9

    def total(self) -> int:
        """What all 32-bit words of the memory add up to, modulo 2^32."""
        self._read(1)
        sums = np.zeros(self._grid * THREADS, np.uint32)
        self._device.read(self._sums, sums)
        return int(sums.sum(dtype=np.uint32))

    def _seconds(self) -> float:
        started = time.perf_counter()
        self._read(self._passes)
        return time.perf_counter() - started

    def _read(self, passes: int) -> None:
        count = np.int64(self._memory.n_bytes // VECTOR)
        for _ in range(passes):
            self._program.launch("read_memory", (self._grid,), THREADS, (self._memory, count, self._sums))
        self._device.read(self._sums, np.zeros(1, np.uint32))  # waits for all of them
