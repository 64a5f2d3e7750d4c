"""The emulator of tests/cuda_host as a device of the engine, and decoders on it."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from app.engine.cuda.decoder import CudaDecoder
from app.engine.cuda.device import Array, Buffer, Device, DeviceFacts, MappedMemory, Program
from app.engine.cuda.sources import FOLDER, MODEL
from app.engine.cuda.weights import plan_weights
from app.engine.formats import FORMATS, GGMLType
from app.engine.gguf import GGUFFile
from app.engine.spec import ModelSpec
from tests.cuda_host import emulator

ALL_FORMATS = sum(1 << kind for kind in FORMATS)
WARPS = 8  # of a block of threads; a GPU gets 16


class EmulatedBuffer:
    """Freed with the object, as the protocol says."""

    def __init__(self, device: emulator.Emulator, n_bytes: int) -> None:
        self.memory = device.allocate(n_bytes)
        self.address, self.n_bytes = self.memory.address, n_bytes
        weakref.finalize(self, device.free, self.memory)


class EmulatedMappedMemory:
    """Memory that kernels and the test see at the same address."""

    def __init__(self, device: emulator.Emulator, n_bytes: int) -> None:
        memory = device.upload(np.zeros(n_bytes, np.uint8), "mapped")
        self.address = memory.address
        self.array: Array = np.ctypeslib.as_array((ctypes.c_uint8 * n_bytes).from_address(memory.address))
        weakref.finalize(self, device.free, memory)


class EmulatedProgram:
    def __init__(self, module: emulator.Module) -> None:
        self.module = module

    def launch(
        self, kernel: str, grid: tuple[int, ...], block: int, arguments: Sequence[Buffer | np.generic], *,
        shared: int = 0, cooperative: bool = False,
    ) -> None:  # fmt: skip
        plain = [argument.memory if isinstance(argument, EmulatedBuffer) else argument for argument in arguments]
        self.module.launch(kernel, grid, (block,), plain, shared_bytes=shared, cooperative=cooperative)

    def resident_blocks(self, kernel: str, block: int, shared: int) -> int:
        return 1


class EmulatedDevice:
    """A card with few multiprocessors. With `all_formats` all models have one program, which compiles in 10 s or so."""

    def __init__(
        self, build: str = "plain", schedule: str = "warp", seed: int = 0, *, n_multiprocessors: int = 2,
        cooperative: bool = True, shared_bytes: int = 99 << 10, all_formats: bool = True,
    ) -> None:  # fmt: skip
        self._all_formats = all_formats
        self.emulator = emulator.Emulator(build, schedule, seed, max_shared_bytes=shared_bytes)
        self.facts = DeviceFacts("emulator", "sm_80", n_multiprocessors, shared_bytes, cooperative, 1 << 32)

    def free_bytes(self) -> int:
        return 1 << 32

    def allocate(self, n_bytes: int) -> Buffer:
        """As on a card: a kernel that reads what nobody wrote gets NaN, and in the race build ends."""
        return EmulatedBuffer(self.emulator, n_bytes)

    def clear(self, buffer: Buffer) -> None:
        self.write(buffer, np.zeros(buffer.n_bytes, np.uint8))

    def host_array(self, n_bytes: int) -> Array:
        return np.empty(n_bytes, np.uint8)

    def mapped(self, n_bytes: int) -> MappedMemory:
        return EmulatedMappedMemory(self.emulator, n_bytes)

    def idle(self) -> bool:
        return True  # a launch is over when it returns

    def record(self, launches: Callable[[], None]) -> Callable[[], None]:
        return launches

    def write(self, buffer: Buffer, array: Array, offset: int = 0) -> None:
        assert isinstance(buffer, EmulatedBuffer)
        self.emulator.write(buffer.memory, array, offset)

    def read(self, buffer: Buffer, array: Array, offset: int = 0) -> None:
        assert isinstance(buffer, EmulatedBuffer)
        part = self.emulator.read(buffer.memory.part(offset, array.nbytes), array.dtype)
        array[...] = part.reshape(array.shape)

    def copy(self, target: Buffer, source: Buffer) -> None:
        assert isinstance(source, EmulatedBuffer)
        self.write(target, self.emulator.read(source.memory, np.uint8))

    def compile(self, constants: Mapping[str, int], main: Path = MODEL) -> Program:
        values = {**constants, "FORMATS": ALL_FORMATS} if self._all_formats else constants
        defines = [f"{name}={value}" for name, value in values.items()]
        elsewhere = [] if main.parent == FOLDER else [FOLDER]  # a folder in the options compiles everything anew
        return EmulatedProgram(self.emulator.module(main, defines, elsewhere))


def emulated_decoder(
    gguf: GGUFFile, device: Device, *, head_kind: GGMLType | None = None, **options: Any
) -> CudaDecoder:
    """A decoder over an open file. Options are CudaDecoder's."""
    spec = ModelSpec.from_gguf(gguf)
    given = {"n_ctx": spec.context_length, "kv": "f16", "warps": WARPS} | options
    return CudaDecoder(gguf, spec, plan_weights(gguf, spec, head_kind), device, **given)
