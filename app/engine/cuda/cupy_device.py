"""A GPU through CuPy: its memory, its copies, and NVRTC for the kernels. Never imported where there is no driver.

Memory is CUDA's own, not CuPy's pool, so what is free is what other programs see. Everything goes through one stream.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy.cuda import driver, runtime

from app.engine.cuda.device import Array, Buffer, DeviceFacts, MappedMemory, Program
from app.engine.cuda.find import does_not_start
from app.engine.cuda.sources import MODEL, program_source

_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
_NOT_READY = 600  # cudaErrorNotReady: work is under way
_OWN_SHARED_BYTES = 48 << 10  # a kernel has to ask for more


class CupyBuffer:
    """Device memory; freed with the object."""

    def __init__(self, n_bytes: int) -> None:
        try:
            self.address: int = runtime.malloc(max(n_bytes, 1))
        except runtime.CUDARuntimeError as error:
            if error.status == _OUT_OF_MEMORY:
                raise MemoryError(f"no {n_bytes:,} bytes of GPU memory") from error
            raise
        self.n_bytes = n_bytes
        weakref.finalize(self, runtime.free, self.address)


class CupyMappedMemory:
    """Page-locked memory of the host, which unified addressing gives the same address for the GPU."""

    def __init__(self, n_bytes: int) -> None:
        memory = cupy.cuda.alloc_pinned_memory(n_bytes)
        self.address: int = memory.ptr
        self.array: Array = np.frombuffer(memory, np.uint8, n_bytes)  # holds `memory`
        self.array[:] = 0


class CupyProgram:
    """Compiled kernels. A cooperative launch is a property of the module in CuPy, so there are two of it."""

    def __init__(self, main: Path, constants: Mapping[str, int], stream: Any) -> None:
        options = ("-std=c++17", *(f"-D{name}={value}" for name, value in constants.items()))
        source = program_source(main)
        self._modules = {
            cooperative: cupy.RawModule(code=source, options=options, enable_cooperative_groups=cooperative)
            for cooperative in (False, True)
        }
        self._stream = stream
        self._kernels: dict[tuple[str, bool, int], Any] = {}
        self._modules[False].compile()  # not at the first launch, so that an error comes here

    def launch(
        self, kernel: str, grid: tuple[int, ...], block: int, arguments: Sequence[Buffer | np.generic], *,
        shared: int = 0, cooperative: bool = False,
    ) -> None:  # fmt: skip
        function = self._function(kernel, cooperative, shared)
        plain = tuple(np.uint64(a.address) if isinstance(a, CupyBuffer) else a for a in arguments)
        with self._stream:
            function(grid, (block,), plain, shared_mem=shared)

    def resident_blocks(self, kernel: str, block: int, shared: int) -> int:
        function = self._function(kernel, True, shared)
        return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(function.kernel.ptr, block, shared))

    def _function(self, kernel: str, cooperative: bool, shared: int) -> Any:
        key = (kernel, cooperative, shared)
        if key not in self._kernels:
            function = self._modules[cooperative].get_function(kernel)
            if shared > _OWN_SHARED_BYTES:
                function.max_dynamic_shared_size_bytes = shared
            self._kernels[key] = function
        return self._kernels[key]


class CupyDevice:
    """GPU number `index`. Raises CUDARuntimeError where it cannot be used."""

    def __init__(self, index: int) -> None:
        device = cupy.cuda.Device(index)
        device.use()
        about, facts = device.attributes, runtime.getDeviceProperties(index)
        self.facts = DeviceFacts(
            name=facts["name"].decode(),
            architecture=f"sm_{device.compute_capability}",
            n_multiprocessors=about["MultiProcessorCount"],
            shared_bytes=about["MaxSharedMemoryPerBlockOptin"],
            cooperative=bool(about["CooperativeLaunch"]),
            total_bytes=runtime.memGetInfo()[1],
        )
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def free_bytes(self) -> int:
        free: int = runtime.memGetInfo()[0]
        return free

    def allocate(self, n_bytes: int) -> Buffer:
        return CupyBuffer(n_bytes)

    def clear(self, buffer: Buffer) -> None:
        runtime.memsetAsync(buffer.address, 0, buffer.n_bytes, self.stream.ptr)

    def host_array(self, n_bytes: int) -> Array:
        """Page-locked, so that a copy needs no stop on the way."""
        memory = cupy.cuda.alloc_pinned_memory(max(n_bytes, 1))
        return np.frombuffer(memory, np.uint8, n_bytes)

    def mapped(self, n_bytes: int) -> MappedMemory:
        return CupyMappedMemory(n_bytes)

    def idle(self) -> bool:
        status = runtime.streamQuery(self.stream.ptr)  # `stream.done` takes an error for work that goes on
        if status not in (0, _NOT_READY):
            raise runtime.CUDARuntimeError(status)
        return bool(status == 0)

    def write(self, buffer: Buffer, array: Array, offset: int = 0) -> None:
        data = np.ascontiguousarray(array)
        _check_range(buffer, data.nbytes, offset)
        runtime.memcpyAsync(
            buffer.address + offset, data.ctypes.data, data.nbytes, runtime.memcpyHostToDevice, self.stream.ptr
        )

    def read(self, buffer: Buffer, array: Array, offset: int = 0) -> None:
        _check_range(buffer, array.nbytes, offset)
        runtime.memcpyAsync(
            array.ctypes.data, buffer.address + offset, array.nbytes, runtime.memcpyDeviceToHost, self.stream.ptr
        )
        self.stream.synchronize()

    def copy(self, target: Buffer, source: Buffer) -> None:
        _check_range(target, source.n_bytes, 0)
        runtime.memcpyAsync(
            target.address, source.address, source.n_bytes, runtime.memcpyDeviceToDevice, self.stream.ptr
        )

    def compile(self, constants: Mapping[str, int], main: Path = MODEL) -> Program:
        try:
            return CupyProgram(main, constants, self.stream)
        except RuntimeError as error:  # a kernel that does not compile is another
            raise does_not_start(error) from error

    def record(self, launches: Callable[[], None]) -> Callable[[], None]:
        """A CUDA graph. Kernels must have been compiled and launched once before."""
        self.stream.begin_capture()
        launches()
        graph = self.stream.end_capture()
        return lambda: graph.launch(self.stream)


def _check_range(buffer: Buffer, n_bytes: int, offset: int) -> None:
    if offset < 0 or offset + n_bytes > buffer.n_bytes:
        raise ValueError(f"{n_bytes} bytes at {offset} of {buffer.n_bytes}")
