"""Functions of a loaded library made to jump elsewhere, where the library keeps them to itself and no other can be put
in their place. x86-64 Linux, as the emulator."""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def redirect(library: Path, targets: Mapping[str, Any]) -> None:
    """From now on functions of the loaded library are these: ctypes functions by name, which are kept by the caller.

    A function that the library has under no such name is an AssertionError."""
    for name, place in _places(library, targets).items():
        target = ctypes.cast(targets[name], ctypes.c_void_p).value
        assert target
        _overwrite(place, b"\x48\xb8" + struct.pack("<Q", target) + b"\xff\xe0")  # mov rax, target; jmp rax


def _places(library: Path, names: Mapping[str, Any]) -> dict[str, int]:
    """Addresses in this process, from the symbol table."""
    image = library.read_bytes()
    (sections_at,) = struct.unpack_from("<Q", image, 0x28)
    size, count, _ = struct.unpack_from("<HHH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, sections_at + i * size) for i in range(count)]
    base = _loaded_at(library)
    found = {}
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        text = sections[section[6]][4]  # of its strings
        for at in range(section[4], section[4] + section[5], 24):
            name_at, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, at)
            name = image[text + name_at : image.index(b"\0", text + name_at)].decode()
            if name in names and value:
                found[name] = base + value
    assert found.keys() == names.keys(), f"CuPy has no {sorted(names.keys() - found.keys())}"
    return found


def _loaded_at(library: Path) -> int:
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(library)):
            return int(line.split("-")[0], 16)
    raise AssertionError(f"{library} is not loaded")


def _overwrite(place: int, code: bytes) -> None:
    page = place & -mmap.PAGESIZE
    length = place + len(code) - page
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(length), 7) == 0
    ctypes.memmove(place, code, len(code))
    assert libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(length), 5) == 0
