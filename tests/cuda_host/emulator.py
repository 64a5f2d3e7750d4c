"""A CUDA device on the CPU, for tests: guarded memory, and kernels that are checked while they run.

    device = Emulator(build="race", schedule="random", seed=3)
    module = device.module(Path("scale.cu"))
    x = device.upload(numpy.ones(100, numpy.float32), "x")
    module.launch("scale", grid=(4,), block=(32,), arguments=[x, numpy.float32(2), numpy.int32(100)])
    y = device.read(x, numpy.float32)

A bug raises `Finding`. docs/cuda-emulator.md says what is found, and what is not.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.cuda_host.arguments import Parameter, argument_bytes, read_parameters
from tests.cuda_host.build import BUILDS, module_library, runtime_library
from tests.cuda_host.finding import Finding, FoundRecord

SCHEDULES = ("warp", "reversed", "round-robin", "random", "block-ahead", "block-behind")
_MAX_THREADS = 1024
_MAX_STATIC_SHARED = 48 * 1024


@dataclass(frozen=True)
class Buffer:
    """Device memory. With a `dtype`, a launch checks that it is what the kernel's pointer points to."""

    address: int
    nbytes: int
    name: str
    dtype: np.dtype[Any] | None = None

    def part(self, start: int, nbytes: int | None = None) -> Buffer:
        """`nbytes` of it from byte `start` on."""
        size = self.nbytes - start if nbytes is None else nbytes
        if start < 0 or size < 0 or start + size > self.nbytes:
            raise ValueError(f"{self.name} has {self.nbytes} bytes, not {start} + {size}")
        return replace(self, address=self.address + start, nbytes=size)


class _Request(ctypes.Structure):
    """`Request` of runtime/state.h."""

    _fields_ = [
        ("module", ctypes.c_void_p),
        ("kernel", ctypes.c_char_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_bytes", ctypes.c_uint32),
        ("cooperative", ctypes.c_int32),
        ("schedule", ctypes.c_int32),
        ("flush_denormals", ctypes.c_int32),
        ("stall_ms", ctypes.c_uint32),
        ("limit_ms", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
    ]


@cache
def _runtime() -> ctypes.CDLL:
    library = ctypes.CDLL(str(runtime_library()))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, parameters in (
        ("allocate", pointer, [size, ctypes.c_char_p]),
        ("is_live", ctypes.c_int, [pointer, size]),
        ("write", None, [pointer, pointer, size]),
        ("protect", None, [pointer, ctypes.c_int]),
        ("free", None, [pointer]),
        ("launch", ctypes.c_int, [ctypes.POINTER(_Request), ctypes.POINTER(FoundRecord)]),
        ("switches", ctypes.c_long, []),
    ):
        function = getattr(library, f"cuda_host_{name}")
        function.restype, function.argtypes = result, parameters
    return library


@cache
def _loaded(library: Path) -> tuple[int, dict[str, tuple[Parameter, ...]]]:
    """The address of its table, and its kernels by name."""
    _runtime()
    record = ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL(str(library)), "cuda_host_module"))
    return record, read_parameters(record)


class Emulator:
    """A device. All its modules are compiled in one build and run by one schedule.

    `seed` is where the random schedule starts, and which block is ahead or behind. `max_shared_bytes` and
    `max_resident_blocks` are those of the card that is meant. `flush_denormals` computes as -ftz=true does. A
    thread that gives no other a turn for `stall_s`, or a launch that takes `limit_s`, both of processor time, is a
    deadlock.
    """

    def __init__(
        self,
        build: str = "plain",
        schedule: str = "warp",
        seed: int = 0,
        *,
        max_shared_bytes: int = 99 * 1024,
        max_resident_blocks: int = 256,
        flush_denormals: bool = False,
        stall_s: float = 10.0,
        limit_s: float = 300.0,
    ) -> None:
        if build not in BUILDS or schedule not in SCHEDULES:
            raise ValueError(f"builds: {', '.join(BUILDS)}; schedules: {', '.join(SCHEDULES)}")
        self.build, self.schedule, self.seed = build, schedule, seed
        self.max_shared_bytes, self.max_resident_blocks = max_shared_bytes, max_resident_blocks
        self.flush_denormals, self.stall_s, self.limit_s = flush_denormals, stall_s, limit_s
        self.launches = 0
        self._live: set[int] = set()
        self._close = weakref.finalize(self, _free_all, self._live)

    def close(self) -> None:
        """Free all its memory."""
        self._close()

    def allocate(self, nbytes: int, name: str = "", dtype: Any = None) -> Buffer:
        """Memory that holds no value yet: NaN and -1, and a finding when the race build reads it."""
        address = _runtime().cuda_host_allocate(nbytes, name.encode())
        if not address:
            raise MemoryError(f"no room for {nbytes} bytes of device memory")
        self._live.add(address)
        return Buffer(address, nbytes, name, None if dtype is None else np.dtype(dtype))

    def upload(self, array: np.ndarray[Any, Any], name: str = "", *, read_only: bool = False) -> Buffer:
        """A new buffer with the array's bytes; kernels may not write it when it is `read_only`."""
        buffer = self.allocate(array.nbytes, name, array.dtype)
        self.write(buffer, array)
        if read_only:
            _runtime().cuda_host_protect(buffer.address, 1)
        return buffer

    def write(self, buffer: Buffer, array: np.ndarray[Any, Any], start: int = 0) -> None:
        """Copy the array's bytes to byte `start` of the buffer."""
        source = np.ascontiguousarray(array)
        target = self._checked(buffer.part(start, source.nbytes))
        _runtime().cuda_host_write(target.address, source.ctypes.data, source.nbytes)

    def read(self, buffer: Buffer, dtype: Any = None) -> np.ndarray[Any, Any]:
        """A copy of the buffer, as `dtype` or its own."""
        kind = np.dtype(dtype if dtype is not None else buffer.dtype if buffer.dtype is not None else np.uint8)
        self._checked(buffer)
        return np.frombuffer(ctypes.string_at(buffer.address, buffer.nbytes), kind).copy()

    def free(self, buffer: Buffer) -> None:
        """Its address is not given out again; a kernel that uses it is found."""
        self._checked(buffer)
        self._live.remove(buffer.address)
        _runtime().cuda_host_free(buffer.address)

    def module(self, source: Path, defines: Sequence[str] = (), include: Sequence[Path] = ()) -> Module:
        """The kernels of a .cu file, compiled."""
        return Module(self, module_library(source, self.build, tuple(defines), tuple(include)))

    def is_live(self, buffer: Buffer) -> bool:
        return bool(_runtime().cuda_host_is_live(buffer.address, buffer.nbytes))

    def _checked(self, buffer: Buffer) -> Buffer:
        if not self.is_live(buffer):
            raise ValueError(f"{buffer.name or 'the buffer'} was freed")
        return buffer


class Module:
    """The kernels of one file."""

    def __init__(self, device: Emulator, library: Path) -> None:
        self.device, self.library = device, library
        self._record, self.kernels = _loaded(library)

    def launch(
        self,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Any],
        *,
        shared_bytes: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Run a grid to its end. Arguments are buffers and NumPy scalars of exactly the parameters' types.

        Raises:
            Finding: a bug in the launch or in the kernel; the launch is over, and memory is as it was then.
        """
        device = self.device
        self._check_launch(kernel, grid, block, shared_bytes, cooperative)
        values = argument_bytes(kernel, self.kernels[kernel], arguments, device.is_live)
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        request = _Request(
            module=self._record,
            kernel=kernel.encode(),
            grid=_triple(grid),
            block=_triple(block),
            dynamic_bytes=shared_bytes,
            cooperative=cooperative,
            schedule=SCHEDULES.index(device.schedule),
            flush_denormals=device.flush_denormals,
            stall_ms=int(device.stall_s * 1000),
            limit_ms=int(device.limit_s * 1000),
            seed=device.seed * 1_000_003 + device.launches,
            arguments=pointers,
        )
        device.launches += 1
        found = FoundRecord()
        if _runtime().cuda_host_launch(ctypes.byref(request), ctypes.byref(found)):
            raise found.finding(kernel, self.library)

    def _check_launch(
        self, kernel: str, grid: Sequence[int], block: Sequence[int], shared_bytes: int, cooperative: bool
    ) -> None:
        blocks, threads = int(np.prod(grid)), int(np.prod(block))
        problem = None
        if kernel not in self.kernels:
            problem = f"the module has {', '.join(self.kernels)}"
        elif not 1 <= len(grid) <= 3 or min(grid) < 1 or max([*grid[1:], 1]) > 65_535 or grid[0] > 2**31 - 1:
            problem = f"a grid of {tuple(grid)} blocks"
        elif not 1 <= len(block) <= 3 or min(block) < 1 or max([*block[2:], 1]) > 64 or threads > _MAX_THREADS:
            problem = f"a block of {tuple(block)} threads; a GPU takes up to {_MAX_THREADS}"
        elif not 0 <= shared_bytes <= self.device.max_shared_bytes:
            problem = f"{shared_bytes} bytes of shared memory; the device gives up to {self.device.max_shared_bytes}"
        elif cooperative and blocks > self.device.max_resident_blocks:
            problem = f"{blocks} cooperative blocks; {self.device.max_resident_blocks} can be resident at once"
        if problem:
            raise Finding("launch", kernel, problem)


def fiber_switches() -> int:
    """How often the latest launch went from one thread to another."""
    return int(_runtime().cuda_host_switches())


def _triple(numbers: Sequence[int]) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 3)(*[*numbers, 1, 1][:3])


def _free_all(live: set[int]) -> None:
    for address in live:
        _runtime().cuda_host_free(address)
    live.clear()
