"""What the emulator found, as an exception that names the kernel, block, thread and line."""

from __future__ import annotations

import ctypes
import re
import subprocess
from functools import lru_cache
from pathlib import Path

from tests.cuda_host.build import is_of_the_emulator

_ROOT = Path(__file__).parents[2]
_DEEPEST_STACK = 24

Index = tuple[int, int, int]


class Finding(Exception):  # noqa: N818  it is a finding, as a linter's is
    """A bug in a kernel, or in the way that it is launched.

    `kind` is one of those in docs/cuda-emulator.md; `places` are "file:line in function", innermost first.
    """

    def __init__(
        self,
        kind: str,
        kernel: str,
        text: str,
        block: Index | None = None,
        thread: Index | None = None,
        places: tuple[str, ...] = (),
    ) -> None:
        super().__init__(kind, kernel, text, block, thread, places)
        self.kind, self.kernel, self.text = kind, kernel, text
        self.block, self.thread, self.places = block, thread, places

    def __str__(self) -> str:
        who = f" block {_index(self.block)} thread {_index(self.thread)}" if self.block and self.thread else ""
        places = "".join(f"\n    at {place}" for place in self.places)
        return f"{self.kind} in {self.kernel}{who}: {self.text}{places}"


class FoundRecord(ctypes.Structure):
    """`Finding` of runtime/state.h."""

    _fields_ = [
        ("kind", ctypes.c_char * 32),
        ("message", ctypes.c_char * 1200),
        ("has_thread", ctypes.c_int32),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("file", ctypes.c_char * 256),
        ("line", ctypes.c_int32),
        ("depth", ctypes.c_int32),
        ("stack", ctypes.c_size_t * _DEEPEST_STACK),
    ]

    def finding(self, kernel: str, library: Path) -> Finding:
        """Addresses become lines of the source that `library` was compiled from."""
        addresses = [self.stack[i] for i in range(self.depth)]
        text = self.message.decode(errors="replace")
        mentioned = [int(address, 16) for address in re.findall(r"<0x([0-9a-f]+)>", text)]
        lines = _source_lines(library, tuple(addresses + mentioned))
        for address in mentioned:
            text = text.replace(f"<{address:#x}>", next(iter(lines[address]), "an unknown line"))
        places = [place for address in addresses for place in lines[address]]
        file = self.file.decode()
        if file and is_of_the_emulator(Path(file)):
            file = ""
        if file and not any(place.startswith(f"{_shown(file)}:{self.line} ") for place in places):
            places.insert(0, f"{_shown(file)}:{self.line}")
        where = (_triple(self.block), _triple(self.thread)) if self.has_thread else (None, None)
        return Finding(self.kind.decode(), kernel, text, *where, tuple(dict.fromkeys(places)))


@lru_cache(maxsize=1000)
def _source_lines(library: Path, addresses: tuple[int, ...]) -> dict[int, list[str]]:
    """For each return address the lines that were inlined there, innermost first, without the emulator's headers."""
    lines: dict[int, list[str]] = {address: [] for address in addresses}
    if not addresses:
        return lines
    inside_calls = [f"{address - 1:#x}" for address in addresses]
    command = ["addr2line", "-e", str(library), "-a", "-i", "-f", "-C", *inside_calls]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    address, function = 0, ""
    for line in output:
        if re.fullmatch(r"0x[0-9a-f]+", line):
            address, function = int(line, 16) + 1, ""
        elif not function:
            function = line
        else:
            file, _, number = line.partition(" ")[0].rpartition(":")
            if file != "??" and not is_of_the_emulator(Path(file)):
                lines[address].append(f"{_shown(file)}:{number} in {function}")
            function = ""
    return lines


def _shown(file: str) -> str:
    path = Path(file).resolve()
    return str(path.relative_to(_ROOT)) if path.is_relative_to(_ROOT) else str(path)


def _triple(numbers: ctypes.Array[ctypes.c_uint32]) -> Index:
    return (numbers[0], numbers[1], numbers[2])


def _index(index: Index) -> str:
    return f"({index[0]},{index[1]},{index[2]})"
