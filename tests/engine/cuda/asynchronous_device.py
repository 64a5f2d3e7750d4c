"""The emulated device as a real one is: a launch returns at once, and the host looks at mapped memory while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from app.engine.cuda.device import Array, Buffer, Program
from tests.engine.cuda.emulated_device import EmulatedDevice


class AsynchronousProgram:
    def __init__(self, program: Program, device: AsynchronousDevice) -> None:
        self._program, self._device = program, device

    def launch(
        self, kernel: str, grid: tuple[int, ...], block: int, arguments: Sequence[Buffer | np.generic], *,
        shared: int = 0, cooperative: bool = False,
    ) -> None:  # fmt: skip
        def run() -> None:
            self._program.launch(kernel, grid, block, arguments, shared=shared, cooperative=cooperative)

        self._device.start(run)

    def resident_blocks(self, kernel: str, block: int, shared: int) -> int:
        return self._program.resident_blocks(kernel, block, shared)


class AsynchronousDevice(EmulatedDevice):
    """Launches run one after the other in a thread of their own; copies wait for them."""

    _pending: Future[None] | None = None

    def start(self, run: object) -> None:
        self._finish()
        self._pending = self._worker.submit(run)  # type: ignore[arg-type]

    def idle(self) -> bool:
        if self._pending is None:
            return True
        if self._pending.done():
            self._finish()
        return self._pending is None

    def compile(self, constants: Mapping[str, int]) -> Program:
        self._worker = ThreadPoolExecutor(1)
        return AsynchronousProgram(super().compile(constants), self)

    def write(self, buffer: Buffer, array: Array, offset: int = 0) -> None:
        self._finish()
        super().write(buffer, array, offset)

    def read(self, buffer: Buffer, array: Array, offset: int = 0) -> None:
        self._finish()
        super().read(buffer, array, offset)

    def _finish(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()
