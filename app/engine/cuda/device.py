"""What the engine asks of a device: memory, copies, and kernels by name.

Two things do this: CuPy on a GPU (`cupy_device.py`), and in the tests an emulator that runs the same kernels on the
CPU.
Everything above this interface is the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.engine.cuda.sources import MODEL

Array = NDArray[Any]


class Buffer(Protocol):
    """Memory of the device; freed with the object."""

    @property
    def address(self) -> int:
        """Where it is, for kernels."""

    @property
    def n_bytes(self) -> int:
        """Its size."""


class MappedMemory(Protocol):
    """Memory of the host that kernels read and write while they run; zeros at first, freed with the object."""

    array: Array  # uint8 [n_bytes], for the host

    @property
    def address(self) -> int:
        """Where it is, for kernels."""


class Program(Protocol):
    """Compiled kernels."""

    def launch(
        self, kernel: str, grid: tuple[int, ...], block: int, arguments: Sequence[Buffer | np.generic], *,
        shared: int = 0, cooperative: bool = False,
    ) -> None:  # fmt: skip
        """Start a kernel after all that was started before: `grid` blocks of `block` threads, `shared` bytes each.

        A pointer is given as a Buffer, a number as a NumPy scalar of the parameter's type.
        """

    def resident_blocks(self, kernel: str, block: int, shared: int) -> int:
        """How many blocks of the kernel one multiprocessor holds at a time."""


@dataclass(frozen=True)
class DeviceFacts:
    """`shared_bytes`: the most that one block can have. `cooperative`: blocks of a launch can wait for each other."""

    name: str
    architecture: str  # "sm_90"
    n_multiprocessors: int
    shared_bytes: int
    cooperative: bool
    total_bytes: int


class Device(Protocol):
    """One GPU. Copies are ordered with launches; `read` waits for both."""

    facts: DeviceFacts

    def free_bytes(self) -> int:
        """Memory that can be allocated now."""

    def allocate(self, n_bytes: int) -> Buffer:
        """Memory that holds no value yet. Raises MemoryError."""

    def clear(self, buffer: Buffer) -> None:
        """Zeros into all of it."""

    def host_array(self, n_bytes: int) -> Array:
        """Memory of the host that copies are fast from and to: uint8 [n_bytes]."""

    def mapped(self, n_bytes: int) -> MappedMemory:
        """Memory that host and kernels see alike. A word of it is whole or not there; nothing orders two words."""

    def idle(self) -> bool:
        """Whether all that was started is over; if not, it goes on. Raises what went wrong."""

    def write(self, buffer: Buffer, array: Array, offset: int = 0) -> None:
        """Copy a contiguous array to `offset` bytes into the buffer; the array may change as soon as this returns."""

    def read(self, buffer: Buffer, array: Array, offset: int = 0) -> None:
        """Fill a contiguous array from `offset` bytes into the buffer."""

    def copy(self, target: Buffer, source: Buffer) -> None:
        """Copy all of `source` to the beginning of `target`, on the device."""

    def compile(self, constants: Mapping[str, int], main: Path = MODEL) -> Program:
        """The kernels of `main` and of what it includes, with these constants (layout.cuh)."""

    def record(self, launches: Callable[[], None]) -> Callable[[], None]:
        """What starts all of `launches` again, with less work for the host."""
