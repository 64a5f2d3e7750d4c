"""One GGUF file out of the parts in which a large model is published.

Each part is a GGUF file of its own with some of the tensors; the first also carries the model's metadata. The result
has that metadata byte for byte, less the `split.*` entries, and the tensors of all parts in order.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from app.engine.gguf import GGUFFile, TensorInfo, read_gguf
from app.errors import ModelFileError, printable
from app.hub.download.space import check_room, writing
from app.hub.transfer import OnProgress

CHUNK = 1 << 20  # bytes
_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value of each type
_ALIGNMENT = "general.alignment"


def join_parts(parts: Sequence[Path], target: Path, on_progress: OnProgress) -> None:
    """Write the parts, in order, as the new file `target`. ModelFileError where they do not belong together."""
    files = [read_gguf(part) for part in parts]
    try:
        for number, file in enumerate(files):
            if file.metadata.get("split.no") != number or file.metadata.get("split.count") != len(files):
                raise ModelFileError(f"{printable(file.path.name)} is not part {number + 1} of {len(files)}")
        total = sum(file.tensor_bytes() for file in files)
        check_room(target.parent, total)
        with writing(target), target.open("xb") as out:
            alignment = int(files[0].metadata.get(_ALIGNMENT, 32))
            out.write(_header(files, alignment))
            for file, info in _tensors(files):
                out.write(bytes(-out.tell() % alignment))
                for first in range(0, info.n_bytes, CHUNK):
                    out.write(file.read(info.name, first, min(CHUNK, info.n_bytes - first)).data)
                on_progress("joining", min(out.tell(), total), total)
            out.write(bytes(-out.tell() % alignment))
    finally:
        for file in files:
            file.close()


def _tensors(files: Sequence[GGUFFile]) -> Iterator[tuple[GGUFFile, TensorInfo]]:
    for file in files:
        for info in file.tensors.values():
            yield file, info


def _header(files: Sequence[GGUFFile], alignment: int) -> bytes:
    entries = [entry for entry in _metadata(files[0].path) if not _key(entry).startswith(b"split.")]
    table, offset = [], 0
    for _, info in _tensors(files):
        name = info.name.encode()
        offset += -offset % alignment
        rank = len(info.shape)
        table.append(struct.pack(f"<Q{len(name)}sI{rank}QIQ", len(name), name, rank, *info.shape, info.type, offset))
        offset += info.n_bytes
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(table), len(entries)) + b"".join(entries) + b"".join(table)
    return header + bytes(-len(header) % alignment)


def _metadata(path: Path) -> list[bytes]:
    """The raw metadata entries of a file whose header `read_gguf` has checked."""
    with path.open("rb") as file:
        _, _, _, count = struct.unpack("<4sIQQ", file.read(24))
        entries = []
        for _ in range(count):
            start = file.tell()
            _skip_string(file)
            _skip_value(file, _u32(file))
            length = file.tell() - start
            file.seek(start)
            entries.append(file.read(length))
    return entries


def _key(entry: bytes) -> bytes:
    (length,) = struct.unpack_from("<Q", entry)
    return entry[8 : 8 + length]


def _skip_value(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        _skip_string(file)
    elif kind == _ARRAY:
        inner, count = _u32(file), _u64(file)
        if inner in _SIZES:
            file.seek(_SIZES[inner] * count, 1)
        else:
            for _ in range(count):
                _skip_value(file, inner)
    else:
        file.seek(_SIZES[kind], 1)


def _skip_string(file: BinaryIO) -> None:
    file.seek(_u64(file), 1)


def _u32(file: BinaryIO) -> int:
    return int.from_bytes(file.read(4), "little")


def _u64(file: BinaryIO) -> int:
    return int.from_bytes(file.read(8), "little")
