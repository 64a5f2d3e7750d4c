"""The CUDA runtime for a CuPy that has no GPU: memory is that of the kernel emulator, and each call that changes
something is written down. CuPy has the runtime in its own library, whose functions are made to jump here (jumps.py).
"""

# ruff: noqa: N802, N815 - the names are CUDA's

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.cuda_host import emulator
from tests.engine.cuda.jumps import redirect

INVALID, OUT_OF_MEMORY, NOT_READY = 1, 2, 600
SHARED_BYTES = 99 << 10  # of a block that asks for it
ATTRIBUTES = {16: 2, 75: 8, 76: 0, 95: 1, 97: SHARED_BYTES}  # cudaDeviceAttr: multiprocessors, 8.0, cooperative, shared
TOTAL_BYTES, FREE_BYTES = 3 << 30, 2 << 30

INT, UNSIGNED, SIZE, HANDLE = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
INTS, HANDLES, SIZES = ctypes.POINTER(INT), ctypes.POINTER(HANDLE), ctypes.POINTER(SIZE)


@dataclass(frozen=True)
class Call:
    """A call that changes something, as it arrived, without addresses and handles. Stream 0 is CUDA's own."""

    function: str
    arguments: tuple[Any, ...]
    stream: int | None = None


class FakeRuntime:
    """Two devices that are alike and have the memory of one emulator. `current` is the one that is used."""

    def __init__(self, device: emulator.Emulator) -> None:
        self.current = 0
        self.calls: list[Call] = []
        self.problems: list[str] = []  # in the answering itself: nothing here may raise through C
        self.free_bytes = FREE_BYTES
        self.failing: dict[str, int] = {}  # functions that return an error, once
        self._device = device
        self._memory: dict[int, emulator.Buffer] = {}
        self._objects: dict[int, Any] = {}  # modules, functions, streams, graphs by handle
        self._handles = itertools.count(0x1000, 16)
        self._capture: list[Callable[[], int]] | None = None
        self._kept: list[Any] = []  # what C holds pointers to

    def count(self, function: str) -> int:
        return sum(call.function == function for call in self.calls)

    def take_over(self, library: Path) -> None:
        """Make the CUDA runtime inside `library`, which is loaded, jump here."""
        redirect(library, {name: self.pointer(name, types) for name, types in RUNTIME.items()})

    def pointer(self, name: str, types: tuple[Any, ...]) -> Any:
        method = getattr(self, name)
        result = ctypes.c_void_p if name in ("cudaGetErrorName", "cudaGetErrorString") else ctypes.c_int

        def answer(*arguments: Any) -> Any:
            if name in self.failing:
                return self.failing.pop(name)
            try:
                return method(*arguments)
            except BaseException as error:
                self.problems.append(f"{name}: {error}")
                return INVALID

        self._kept.append(ctypes.CFUNCTYPE(result, *types)(answer))
        return self._kept[-1]

    def _note(self, function: str, *arguments: Any, stream: int | None = None) -> None:
        self.calls.append(Call(function, arguments, stream))

    def _new(self, what: Any) -> int:
        handle = next(self._handles)
        self._objects[handle] = what
        return handle

    def cudaGetErrorName(self, status: int) -> int:
        self._kept.append(ctypes.create_string_buffer(f"error {status}".encode()))
        return ctypes.addressof(self._kept[-1])

    cudaGetErrorString = cudaGetErrorName

    def cudaGetLastError(self) -> int:
        return 0

    def cudaDriverGetVersion(self, version: Any) -> int:
        version[0] = 13_000
        return 0

    def cudaGetDeviceCount(self, count: Any) -> int:
        count[0] = 2
        return 0

    def cudaGetDevice(self, device: Any) -> int:
        device[0] = self.current
        return 0

    def cudaSetDevice(self, device: int) -> int:
        self.current = device
        return 0

    def cudaDeviceGetAttribute(self, value: Any, attribute: int, device: int) -> int:
        value[0] = ATTRIBUTES.get(attribute, 0)
        return 0

    def cudaGetDeviceProperties(self, properties: int, device: int) -> int:
        ctypes.memmove(properties, b"Fake GPU\0", 9)  # the name comes first
        return 0

    def cudaMemGetInfo(self, free: Any, total: Any) -> int:
        free[0], total[0] = self.free_bytes, TOTAL_BYTES
        return 0

    def cudaMalloc(self, address: Any, n_bytes: int) -> int:
        buffer = self._device.allocate(n_bytes)
        self._memory[buffer.address] = buffer
        address[0] = buffer.address
        self._note("cudaMalloc", n_bytes)
        return 0

    def cudaFree(self, address: int) -> int:
        if not address:
            return 0  # how CuPy begins
        self._device.free(self._memory.pop(address))
        self._note("cudaFree")
        return 0

    def cudaHostAlloc(self, address: Any, n_bytes: int, flags: int) -> int:
        buffer = self._device.upload(np.full(n_bytes, 165, np.uint8), "host")  # anything; kernels may use it
        self._memory[buffer.address] = buffer
        address[0] = buffer.address
        self._note("cudaHostAlloc", n_bytes, flags)
        return 0

    def cudaFreeHost(self, address: int) -> int:
        self._device.free(self._memory.pop(address))
        self._note("cudaFreeHost")
        return 0

    def cudaMemsetAsync(self, address: int, value: int, n_bytes: int, stream: int | None) -> int:
        self._write(address, np.full(n_bytes, value, np.uint8))
        self._note("cudaMemsetAsync", value, n_bytes, stream=stream or 0)
        return 0

    def cudaMemcpyAsync(self, target: int, source: int, n_bytes: int, kind: int, stream: int | None) -> int:
        data = self._read(source, n_bytes) if kind in (2, 3) else np.frombuffer(ctypes.string_at(source, n_bytes), "u1")
        if kind in (1, 3):
            self._write(target, data)
        else:
            ctypes.memmove(target, data.ctypes.data, n_bytes)
        self._note("cudaMemcpyAsync", n_bytes, {1: "to device", 2: "to host", 3: "on device"}[kind], stream=stream or 0)
        return 0

    def cudaStreamCreateWithPriority(self, stream: Any, flags: int, priority: int) -> int:
        stream[0] = self._new("stream")
        self._note("cudaStreamCreateWithPriority", flags, priority)
        return 0

    def cudaStreamDestroy(self, stream: int) -> int:
        del self._objects[stream]
        return 0

    def cudaStreamSynchronize(self, stream: int | None) -> int:
        self._note("cudaStreamSynchronize", stream=stream or 0)
        return 0

    def cudaStreamQuery(self, stream: int | None) -> int:
        self._note("cudaStreamQuery", stream=stream or 0)
        return 0

    def cudaStreamBeginCapture(self, stream: int, mode: int) -> int:
        assert self._capture is None
        self._capture = []
        self._note("cudaStreamBeginCapture", stream=stream or 0)
        return 0

    def cudaStreamIsCapturing(self, stream: int, status: Any) -> int:
        status[0] = int(self._capture is not None)
        return 0

    def cudaStreamEndCapture(self, stream: int, graph: Any) -> int:
        graph[0] = self._new(self._capture)
        self._capture = None
        self._note("cudaStreamEndCapture", stream=stream or 0)
        return 0

    def cudaGraphInstantiate(self, executable: Any, graph: int, flags: int) -> int:
        executable[0] = self._new(list(self._objects[graph]))
        self._note("cudaGraphInstantiate", len(self._objects[graph]))
        return 0

    def cudaGraphDestroy(self, graph: int) -> int:
        self._note("cudaGraphDestroy")
        return 0

    def cudaGraphExecDestroy(self, executable: int) -> int:
        self._note("cudaGraphExecDestroy")
        return 0

    def cudaGraphLaunch(self, executable: int, stream: int | None) -> int:
        self._note("cudaGraphLaunch", stream=stream or 0)
        return max(launch() for launch in self._objects[executable])

    def _write(self, address: int, data: np.ndarray[Any, Any]) -> None:
        self._device.write(emulator.Buffer(address, data.nbytes, "a copy"), data)

    def _read(self, address: int, n_bytes: int) -> np.ndarray[Any, Any]:
        return self._device.read(emulator.Buffer(address, n_bytes, "a copy"), np.uint8)


RUNTIME: Mapping[str, tuple[Any, ...]] = {
    "cudaGetErrorName": (INT,),
    "cudaGetErrorString": (INT,),
    "cudaGetLastError": (),
    "cudaDriverGetVersion": (INTS,),
    "cudaGetDeviceCount": (INTS,),
    "cudaGetDevice": (INTS,),
    "cudaSetDevice": (INT,),
    "cudaDeviceGetAttribute": (INTS, INT, INT),
    "cudaGetDeviceProperties": (HANDLE, INT),
    "cudaMemGetInfo": (SIZES, SIZES),
    "cudaMalloc": (HANDLES, SIZE),
    "cudaFree": (HANDLE,),
    "cudaHostAlloc": (HANDLES, SIZE, UNSIGNED),
    "cudaFreeHost": (HANDLE,),
    "cudaMemsetAsync": (HANDLE, INT, SIZE, HANDLE),
    "cudaMemcpyAsync": (HANDLE, HANDLE, SIZE, INT, HANDLE),
    "cudaStreamCreateWithPriority": (HANDLES, UNSIGNED, INT),
    "cudaStreamDestroy": (HANDLE,),
    "cudaStreamSynchronize": (HANDLE,),
    "cudaStreamQuery": (HANDLE,),
    "cudaStreamBeginCapture": (HANDLE, INT),
    "cudaStreamIsCapturing": (HANDLE, INTS),
    "cudaStreamEndCapture": (HANDLE, HANDLES),
    "cudaGraphInstantiate": (HANDLES, HANDLE, ctypes.c_ulonglong),
    "cudaGraphDestroy": (HANDLE,),
    "cudaGraphExecDestroy": (HANDLE,),
    "cudaGraphLaunch": (HANDLE, HANDLE),
}
