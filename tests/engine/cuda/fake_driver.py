"""The CUDA driver for a CuPy that has no GPU: modules, functions and launches.

CuPy looks the functions of `libcuda` up by name, through ctypes, and is given these. It compiles with NVRTC and loads
the machine code; what runs in its place is the same kernel on the CPU, with the bytes of the arguments that CuPy has
packed.
"""

# ruff: noqa: N802, N815 - the names are CUDA's

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.cuda_host import emulator
from tests.engine.cuda.fake_runtime import (
    HANDLE,
    HANDLES,
    INT,
    INTS,
    INVALID,
    SHARED_BYTES,
    SIZE,
    UNSIGNED,
    FakeRuntime,
)

MAX_DYNAMIC_SHARED = 8  # CUfunction_attribute
OWN_SHARED_BYTES = 48 << 10  # that a launch has without asking


@dataclass
class Function:
    """A kernel of a loaded module."""

    name: str
    shared_bytes: int = OWN_SHARED_BYTES


class FakeDriver(FakeRuntime):
    """`kernels` are what runs, by name: whoever compiles a program puts its kernels there."""

    def __init__(self, device: emulator.Emulator) -> None:
        super().__init__(device)
        self.kernels: dict[str, emulator.Module] = {}

    def library(self) -> Any:
        """In the place of ctypes.CDLL("libcuda.so.1")."""
        functions = {name: self.pointer(name, types) for name, types in DRIVER.items()}
        return type("Libcuda", (), functions)()

    def cuGetErrorName(self, status: int, name: Any) -> int:
        name[0] = b"CUDA_ERROR"
        return 0

    cuGetErrorString = cuGetErrorName

    def cuModuleLoadData(self, module: Any, image: int) -> int:
        assert ctypes.string_at(image, 4) == b"\x7fELF"
        module[0] = self._new({})
        self._note("cuModuleLoadData")
        return 0

    def cuModuleUnload(self, module: int) -> int:
        return 0

    def cuModuleGetFunction(self, function: Any, module: int, name: bytes) -> int:
        functions = self._objects[module]
        if name not in functions:
            functions[name] = self._new(Function(name.decode()))
        function[0] = functions[name]
        return 0

    def cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> int:
        assert attribute == MAX_DYNAMIC_SHARED and value <= SHARED_BYTES
        self._objects[function].shared_bytes = value
        self._note("cuFuncSetAttribute", self._objects[function].name, value)
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, blocks: Any, function: int, block: int, shared: int) -> int:
        blocks[0] = int(shared <= self._objects[function].shared_bytes)  # none of a kernel that asked for too little
        return 0

    def cuLaunchKernel(self, *arguments: Any) -> int:
        return self._launch("cuLaunchKernel", *arguments)

    def cuLaunchCooperativeKernel(self, *arguments: Any) -> int:
        return self._launch("cuLaunchCooperativeKernel", *arguments, None)

    def _launch(
        self, way: str, handle: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int,
        stream: int | None, parameters: Any, extra: None,
    ) -> int:  # fmt: skip
        function = self._objects[handle]
        if shared > function.shared_bytes:
            return INVALID
        kernel = self.kernels[function.name]
        packed = [
            ctypes.string_at(parameters[i], parameter.nbytes)
            for i, parameter in enumerate(kernel.kernels[function.name])
        ]
        arguments = [
            emulator.Buffer(int.from_bytes(value, "little"), 1, "an argument")
            if parameter.kind == "p"
            else np.frombuffer(value, f"{parameter.kind}{parameter.nbytes}")[0]
            for value, parameter in zip(packed, kernel.kernels[function.name], strict=True)
        ]
        numbers = tuple(int(value) for value in arguments if isinstance(value, np.generic))
        self._note(way, function.name, (gx, gy, gz), (bx, by, bz), shared, numbers, stream=stream or 0)

        def launch() -> int:
            kernel.launch(
                function.name, (gx, gy, gz), (bx, by, bz), arguments, shared_bytes=shared,
                cooperative=way == "cuLaunchCooperativeKernel",
            )  # fmt: skip
            return 0

        if self._capture is None:
            return launch()
        self._capture.append(launch)
        return 0


_LAUNCHED = (HANDLE, *[UNSIGNED] * 7, HANDLE, HANDLES)
DRIVER: Mapping[str, tuple[Any, ...]] = {
    "cuGetErrorName": (INT, ctypes.POINTER(ctypes.c_char_p)),
    "cuGetErrorString": (INT, ctypes.POINTER(ctypes.c_char_p)),
    "cuModuleLoadData": (HANDLES, HANDLE),
    "cuModuleUnload": (HANDLE,),
    "cuModuleGetFunction": (HANDLES, HANDLE, ctypes.c_char_p),
    "cuFuncSetAttribute": (HANDLE, INT, INT),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (INTS, HANDLE, INT, SIZE),
    "cuLaunchKernel": (*_LAUNCHED, HANDLES),
    "cuLaunchCooperativeKernel": _LAUNCHED,
}
