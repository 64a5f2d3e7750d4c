"""AMX's tile instructions in NumPy, for machines that lack them: the kernels' IR calls these functions instead.

As Intel's manual has them: tdpbssd adds, for each row of the first and each column of the second, the products of four
neighbouring signed bytes. Every thread has registers of its own.
"""

from __future__ import annotations

import ctypes
import re
import struct
import threading
from typing import Any

import numpy as np
from llvmlite import binding
from numpy.typing import NDArray

REGISTERS, PLACE, STRIDE = ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64


class Tiles(threading.local):
    """One thread's registers: bytes [rows, bytes a row], none before `ldtilecfg` and after `tilerelease`."""

    def __init__(self) -> None:
        self.registers: list[NDArray[np.uint8]] = []

    def ldtilecfg(self, place: int) -> None:
        palette, start, *sizes = struct.unpack("<BB14x16H16B", ctypes.string_at(place, 64))
        assert (palette, start) == (1, 0)
        shapes = zip(sizes[16:24], sizes[:8], strict=True)
        self.registers = [np.zeros(shape, np.uint8) for shape in shapes]

    def tilerelease(self) -> None:
        self.registers = []

    def tilezero(self, tile: int) -> None:
        self.registers[tile][:] = 0

    def tileloadd64(self, tile: int, place: int, stride: int) -> None:
        register = self.registers[tile]
        for row in range(len(register)):
            register[row] = np.frombuffer(ctypes.string_at(place + row * stride, register.shape[1]), np.uint8)

    def tilestored64(self, tile: int, place: int, stride: int) -> None:
        for row, content in enumerate(self.registers[tile]):
            ctypes.memmove(place + row * stride, content.tobytes(), len(content))

    def tdpbssd(self, total: int, left: int, right: int) -> None:
        a, b = (self.registers[tile].view(np.int8).astype(np.int32) for tile in (left, right))
        columns = b.reshape(len(b), -1, 4).transpose(0, 2, 1).reshape(-1, b.shape[1] // 4)  # [k, n]
        self.registers[total].view(np.int32)[:] += a @ columns


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "ldtilecfg": (PLACE,),
    "tilerelease": (),
    "tilezero": (REGISTERS,),
    "tileloadd64": (REGISTERS, PLACE, STRIDE),
    "tilestored64": (REGISTERS, PLACE, STRIDE),
    "tdpbssd": (REGISTERS, REGISTERS, REGISTERS),
}
TILES = Tiles()
CALLBACKS = {
    name: ctypes.CFUNCTYPE(None, *arguments)(lambda *args, name=name: getattr(TILES, name)(*args))
    for name, arguments in ARGUMENTS.items()
}


def call_emulated_tiles(text: str) -> str:
    """`text`, LLVM IR, with every tile instruction as a call of the function here."""
    for name, callback in CALLBACKS.items():
        address = ctypes.cast(callback, ctypes.c_void_p).value
        assert address is not None
        binding.add_symbol(f"emulated_{name}", address)
        assert f"@llvm.x86.{name}(" in text
        text = text.replace(f"@llvm.x86.{name}(", f"@emulated_{name}(")
    return re.sub(r"^declare .*@emulated_.*$", lambda match: match[0].replace(" immarg", ""), text, flags=re.MULTILINE)
