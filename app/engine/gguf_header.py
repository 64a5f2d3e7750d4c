"""Read the header of a GGUF file: its version, its metadata and its table of tensors.

A header comes from anywhere on the internet, so it is read as hostile input: every length, count, offset, type and
dimension is checked, in exact integers, before it is used for anything.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.formats import FORMATS, GGMLType
from app.engine.strings import LENGTH_BYTES, Strings, Unread, locate, pass_over
from app.errors import ModelFileError, UnsupportedModelError, printable

MAX_HEADER = 64 << 20  # bytes; a header with a vocabulary of 262,144 tokens takes about 12 MiB
MAX_ALIGNMENT = 1 << 20
MAX_DIMENSION = 2**31 - 1
DEFAULT_ALIGNMENT = 32
ALIGNMENT_KEY = "general.alignment"

DAMAGED_HINT = "the file is damaged or was not downloaded completely; fetch it again"


class ValueType(IntEnum):
    """Type ids of metadata values."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


_NUMBERS: Mapping[int, np.dtype[Any]] = {
    ValueType.UINT8: np.dtype("u1"),
    ValueType.INT8: np.dtype("i1"),
    ValueType.UINT16: np.dtype("<u2"),
    ValueType.INT16: np.dtype("<i2"),
    ValueType.UINT32: np.dtype("<u4"),
    ValueType.INT32: np.dtype("<i4"),
    ValueType.FLOAT32: np.dtype("<f4"),
    ValueType.BOOL: np.dtype("?"),
    ValueType.UINT64: np.dtype("<u8"),
    ValueType.INT64: np.dtype("<i8"),
    ValueType.FLOAT64: np.dtype("<f8"),
}

# Where a wrong declaration would change how the rest is understood; a pair (ARRAY, t) is an array of t.
_DECLARED: Mapping[str, tuple[tuple[int, ...], ...]] = {
    ALIGNMENT_KEY: ((ValueType.UINT32,),),
    "tokenizer.ggml.tokens": ((ValueType.ARRAY, ValueType.STRING),),
    "tokenizer.ggml.merges": ((ValueType.ARRAY, ValueType.STRING),),
    "tokenizer.ggml.scores": ((ValueType.ARRAY, ValueType.FLOAT32),),
    "tokenizer.ggml.token_type": ((ValueType.ARRAY, ValueType.INT32), (ValueType.ARRAY, ValueType.UINT32)),
}

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_MIN_ENTRY = 8 + 4 + 1  # bytes of the smallest metadata entry: empty key, type, one byte
_MIN_TENSOR = 8 + 4 + 8 + 4 + 8  # bytes of the smallest tensor entry: empty name, rank, one dimension, type, offset


@dataclass(frozen=True)
class TensorInfo:
    """One entry of the tensor table.

    shape is in GGUF order: shape[0] columns lie side by side, shape[1] is the number of rows. offset is absolute, in
    bytes. n_bytes is exact for a runnable type; for any other type it is the room up to the next tensor. part: in
    which file of a split model it is, from 0.
    """

    name: str
    type: GGMLType
    shape: tuple[int, ...]
    offset: int
    n_bytes: int
    part: int = 0


@dataclass(frozen=True)
class Header:
    """What a header says, checked against the size of the file in bytes."""

    version: int
    size: int
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]


def read_header(path: Path, descriptor: int, *, texts: bool = True) -> Header:
    """The header of the open file `descriptor`; `path` is for messages. Everything is copied out of the mapping.

    texts: whether arrays of strings are read. A list of models, which shows none of them, passes over the vocabulary in
    a third of the time: each is `Unread`, and nobody knows whether it is valid UTF-8. All bounds are checked as ever.

    ModelFileError where it is no GGUF file, is incomplete or contradicts itself; UnsupportedModelError where it is a
    kind of GGUF that is not read here (version 1, big-endian, newer than 3).
    """
    size = os.fstat(descriptor).st_size
    if size == 0:
        raise _incomplete(path, 0, 24, "a GGUF header")
    with mmap.mmap(descriptor, min(size, MAX_HEADER), access=mmap.ACCESS_READ) as header:
        cursor = _Cursor(path, header, size, texts)
        version = _read_version(cursor)
        n_tensors = cursor.u64("the number of tensors")
        n_entries = cursor.u64("the number of metadata entries")
        cursor.need(n_entries * _MIN_ENTRY, f"the number of metadata entries, {n_entries:,},")
        cursor.need(n_tensors * _MIN_TENSOR, f"the number of tensors, {n_tensors:,},")
        metadata = _read_metadata(cursor, n_entries)
        alignment = _alignment(cursor, metadata)
        entries = _read_tensor_table(cursor, n_tensors)
        data_start = -(-cursor.position // alignment) * alignment
    tensors = _place_tensors(path, size, data_start, alignment, entries)
    return Header(version, size, metadata, tensors)


class _Cursor:
    """Reads values from the header one after the other and refuses to pass its end."""

    def __init__(self, path: Path, header: mmap.mmap, size: int, texts: bool) -> None:
        self.path = path
        self.header = header
        self.size = size
        self.texts = texts
        self.position = 0

    def fail(self, what: str) -> ModelFileError:
        return _corrupt(self.path, what)

    def too_short(self, end: int, what: str) -> ModelFileError:
        """The error for `what`, which ends at byte `end` and so beyond the file or beyond the largest header."""
        if end <= self.size:
            return self.fail(f"{what} ends beyond the largest header that is read, {MAX_HEADER:,} bytes")
        return _incomplete(self.path, self.size, end, what)

    def need(self, n_bytes: int, what: str) -> int:
        """Check that `n_bytes` more bytes are there, and return the position after them."""
        end = self.position + n_bytes
        if end > len(self.header):
            raise self.too_short(end, what)
        return end

    def u32(self, what: str) -> int:
        end = self.need(4, what)
        value: int = _U32.unpack_from(self.header, self.position)[0]
        self.position = end
        return value

    def u64(self, what: str) -> int:
        end = self.need(8, what)
        value: int = _U64.unpack_from(self.header, self.position)[0]
        self.position = end
        return value

    def string(self, what: str) -> str:
        length = self.u64(f"the length of {what}")
        end = self.need(length, f"{what}, {length:,} bytes long,")
        try:
            text = self.header[self.position : end].decode()
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} is not valid UTF-8") from error
        self.position = end
        return text

    def numbers(self, kind: int, count: int, what: str) -> NDArray[Any]:
        dtype = _NUMBERS[kind]
        end = self.need(count * dtype.itemsize, what)
        raw = self.header[self.position : end]
        if kind == ValueType.BOOL and raw.strip(b"\0\1"):
            raise self.fail(f"{what} is neither true nor false")
        self.position = end
        return np.frombuffer(raw, dtype)

    def strings(self, count: int, what: str) -> Strings | Unread:
        """As `string`, `count` times; a vocabulary has 150,000, so they are taken all at once."""
        self.need(count * LENGTH_BYTES, what)
        start = self.position
        if not self.texts:
            found, self.position = pass_over(self.header, start, count)
            self._need_all(count, found, self.position, what)
            return Unread(count)
        begins, ends = locate(self.header, start, count)
        end = int(ends[-1]) if len(ends) else start
        self._need_all(count, len(ends), end, what)
        data = np.frombuffer(bytearray(self.header[start:end]), np.uint8)
        begins, ends = begins - start, ends - start
        for octet in range(1, LENGTH_BYTES + 1):
            data[begins - octet] = ord(" ")  # in place of the lengths
        text = data.tobytes()
        try:
            text.decode()  # the spaces keep the strings apart
        except UnicodeDecodeError as error:
            index = int(np.searchsorted(begins, error.start, side="right")) - 1
            raise self.fail(f"item {index:,} of {what} is not valid UTF-8") from error
        self.position = end
        return Strings(text, begins, ends)

    def _need_all(self, count: int, found: int, end: int, what: str) -> None:
        """Check that all `count` strings were found; of the first that was not, the length is at `end`."""
        if found == count:
            return
        text_start = end + LENGTH_BYTES
        if text_start > len(self.header):
            raise self.too_short(text_start, f"the length of item {found:,} of {what}")
        text_end = text_start + _U64.unpack_from(self.header, end)[0]
        raise self.too_short(text_end, f"item {found:,} of {what}")


def shown_name(path: Path) -> str:
    """The name of the file, safe for a message."""
    return printable(path.name)


def _corrupt(path: Path, what: str) -> ModelFileError:
    return ModelFileError(f"{shown_name(path)} is corrupt: {what}", DAMAGED_HINT)


def _incomplete(path: Path, size: int, needed: int, what: str) -> ModelFileError:
    return ModelFileError(
        f"{shown_name(path)} is incomplete or corrupt: {size:,} bytes are there, {what} needs at least {needed:,}",
        DAMAGED_HINT,
    )


_LOOK_FOR_GGUF = "look for the model as a .gguf file"

# First bytes of other files that end up under a model's name: the bytes in lower case, what they are, what to do.
_OTHER_KINDS = (
    (b"version https://git-lfs", "a Git LFS pointer, not the model itself", "fetch the file itself: git lfs pull"),
    (b"<!doctype", "a web page", "the link led to a page about the file or to a login; fetch the file itself"),
    (b"<html", "a web page", "the link led to a page about the file or to a login; fetch the file itself"),
    (b"lmgg", "an old GGML file, a kind that GGUF replaced in 2023", _LOOK_FOR_GGUF),
    (b"fmgg", "an old GGMF file, a kind that GGUF replaced in 2023", _LOOK_FOR_GGUF),
    (b"tjgg", "an old GGJT file, a kind that GGUF replaced in 2023", _LOOK_FOR_GGUF),
    (b"algg", "an old GGLA adapter", _LOOK_FOR_GGUF),
    (b"pk\x03\x04", "a zip or PyTorch file", _LOOK_FOR_GGUF),
    (b"{", "a JSON file", _LOOK_FOR_GGUF),
)


def _read_version(cursor: _Cursor) -> int:
    """The version after the magic; the error says what else the file is, where that can be told."""
    name = shown_name(cursor.path)
    start = bytes(cursor.header[:64])
    if not start.startswith(b"GGUF"):
        if b"GGUF".startswith(start):
            raise _incomplete(cursor.path, cursor.size, 24, "a GGUF header")
        begins = start.lstrip().lower()
        for mark, kind, hint in _OTHER_KINDS:
            if begins.startswith(mark):
                raise ModelFileError(f"{name} is not a GGUF file but {kind}", hint)
        if start[8:9] == b"{":  # after the length of its header
            raise ModelFileError(f"{name} is not a GGUF file but a safetensors file", _LOOK_FOR_GGUF)
        raise ModelFileError(f"{name} is not a GGUF file: it starts with {start[:4]!r}", _LOOK_FOR_GGUF)
    cursor.position = 4
    version = cursor.u32("the version")
    if version in (2, 3):
        return version
    if version == 1:
        raise UnsupportedModelError(
            f"{name} is a GGUF file of version 1, which is not read", "look for a newer conversion"
        )
    if version and not version & 0xFFFF:
        raise UnsupportedModelError(f"{name} is a big-endian GGUF file", "look for the little-endian conversion")
    if version > 3 and version < 100:
        raise UnsupportedModelError(
            f"{name} is a GGUF file of version {version}; versions 2 and 3 are read", "update qchat"
        )
    raise cursor.fail(f"GGUF version {version:,}")


def _read_metadata(cursor: _Cursor, n_entries: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for index in range(n_entries):
        key = cursor.string(f"the key of metadata entry {index:,}")
        what = f"metadata '{printable(key)}'"
        if not key:
            raise cursor.fail(f"the key of metadata entry {index:,} is empty")
        if key in metadata:
            raise cursor.fail(f"{what} is there twice")
        metadata[key] = _read_value(cursor, key, what)
    return metadata


def _read_value(cursor: _Cursor, key: str, what: str) -> Any:
    declared: tuple[int, ...] = (cursor.u32(f"the type of {what}"),)
    if declared[0] == ValueType.ARRAY:
        declared = (ValueType.ARRAY, cursor.u32(f"the item type of {what}"))
    if key in _DECLARED and declared not in _DECLARED[key]:
        found, wanted = _type_name(declared), _type_name(_DECLARED[key][0])
        raise cursor.fail(f"{what} is declared as {found} where it must be {wanted}")
    kind = declared[-1]
    if declared == (ValueType.ARRAY, ValueType.ARRAY):
        raise cursor.fail(f"{what} is an array of arrays")
    if kind not in _NUMBERS and kind != ValueType.STRING:
        raise cursor.fail(f"{what} has the unknown type {kind:,}")
    if len(declared) == 1:
        return cursor.string(what) if kind == ValueType.STRING else cursor.numbers(kind, 1, what)[0].item()
    count = cursor.u64(f"the length of {what}")
    named = f"{what}, {count:,} items of {_type_name(declared[1:])},"
    return cursor.strings(count, named) if kind == ValueType.STRING else cursor.numbers(kind, count, named)


def _type_name(declared: tuple[int, ...]) -> str:
    names = {kind.value: kind.name for kind in ValueType}
    return " of ".join(names.get(kind, f"type {kind:,}") for kind in declared)


def _alignment(cursor: _Cursor, metadata: Mapping[str, Any]) -> int:
    alignment: int = metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT)
    if not 8 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        raise cursor.fail(f"{ALIGNMENT_KEY} is {alignment:,}, not a power of two from 8 to {MAX_ALIGNMENT:,}")
    return alignment


@dataclass(frozen=True)
class _Entry:
    """A tensor as the table states it; offset counts from the start of the data."""

    name: str
    type: GGMLType
    shape: tuple[int, ...]
    offset: int


def _read_tensor_table(cursor: _Cursor, n_tensors: int) -> list[_Entry]:
    entries: dict[str, _Entry] = {}
    for index in range(n_tensors):
        name = cursor.string(f"the name of tensor {index:,}")
        what = f"tensor '{printable(name)}'"
        if not name:
            raise cursor.fail(f"the name of tensor {index:,} is empty")
        if name in entries:
            raise cursor.fail(f"{what} is there twice")
        rank = cursor.u32(f"the number of dimensions of {what}")
        if not 1 <= rank <= 4:
            raise cursor.fail(f"{what} has {rank:,} dimensions; 1 to 4 are possible")
        shape = tuple(cursor.u64(f"dimension {axis} of {what}") for axis in range(rank))
        for axis, length in enumerate(shape):
            if not 1 <= length <= MAX_DIMENSION:
                raise cursor.fail(f"dimension {axis} of {what} is {length:,}; 1 to {MAX_DIMENSION:,} are possible")
        kind = GGMLType(cursor.u32(f"the type of {what}"))
        if kind in FORMATS and shape[0] % FORMATS[kind].block:
            raise cursor.fail(f"{what} has rows of {shape[0]:,}, not whole {kind.name} blocks of {FORMATS[kind].block}")
        entries[name] = _Entry(name, kind, shape, cursor.u64(f"the offset of {what}"))
    return list(entries.values())


def _place_tensors(
    path: Path, size: int, data_start: int, alignment: int, entries: list[_Entry]
) -> dict[str, TensorInfo]:
    """Absolute offsets and sizes of `entries`, which must be aligned, apart from each other and inside the file."""
    by_offset = sorted(entries, key=lambda entry: entry.offset)
    starts = [entry.offset for entry in by_offset]
    following = [*starts, max(size - data_start, 0)][1:]
    placed: dict[str, TensorInfo] = {}
    previous, end = "", 0
    for entry, next_start in zip(by_offset, following, strict=True):
        what = f"tensor '{printable(entry.name)}'"
        if entry.offset % alignment:
            raise _corrupt(path, f"the offset of {what}, {entry.offset:,}, is not a multiple of {alignment}")
        if entry.offset < end:
            raise _corrupt(path, f"the data of {what} overlaps that of tensor '{printable(previous)}'")
        n_bytes = _size_of(entry, max(next_start - entry.offset, 0))
        placed[entry.name] = TensorInfo(entry.name, entry.type, entry.shape, data_start + entry.offset, n_bytes)
        previous, end = entry.name, entry.offset + n_bytes
    if entries and data_start + end > size:
        raise _incomplete(path, size, data_start + end, f"tensor '{printable(previous)}'")
    return {entry.name: placed[entry.name] for entry in entries}


def _size_of(entry: _Entry, room: int) -> int:
    """Bytes of a tensor; for a type whose blocks are not known here, the room that the file leaves it."""
    form = FORMATS.get(entry.type)
    if form is None:
        return room
    n_weights = 1
    for length in entry.shape:
        n_weights *= length
    return n_weights // form.block * form.n_bytes
