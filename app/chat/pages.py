"""Reads the rows of a damaged SQLite file without SQLite: page by page, trusting nothing that another page says.

SQLite finds a row by walking down from the first page, so one bad page hides everything below it. The leaves that hold
the rows describe themselves, so every leaf that is intact gives its rows, wherever it stands. What is read is what the
last commit left: pages in the write-ahead log replace those of the file.

Format: https://www.sqlite.org/fileformat2.html, sections 1.3 (header), 1.6 (b-tree pages), 2.1 (records), 4 (log).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

_MAGIC = b"SQLite format 3\0"
_LOG_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_LEAF = 0x0D  # of a table with row numbers
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
DEFAULT_PAGE_BYTES = 4096


class FoundRow(NamedTuple):
    """One row as it stands in a leaf. `whole` is False where a part of its text is missing or is no text."""

    columns: tuple[Any, ...]
    whole: bool


def read_rows(database: bytes, log: bytes = b"") -> Iterator[FoundRow]:
    """Every row of every table that has row numbers, in no order. Bytes that are no row are passed over."""
    page_bytes = _page_bytes(database, log)
    pages = {
        number: database[start : start + page_bytes]
        for number, start in enumerate(range(0, len(database), page_bytes), start=1)
    }
    pages.update(_logged_pages(log, page_bytes))
    for page in pages.values():
        if len(page) == page_bytes and page[0] == _LEAF:  # the first page, which begins otherwise, only has the schema
            yield from _rows_of_leaf(page, pages)


def _page_bytes(database: bytes, log: bytes) -> int:
    candidates = []
    if database.startswith(_MAGIC):
        candidates.append(struct.unpack_from(">H", database, 16)[0])
    if len(log) >= _LOG_HEADER_BYTES:
        candidates.append(struct.unpack_from(">I", log, 8)[0])
    for size in candidates:
        size = 65536 if size == 1 else size  # noqa: PLW2901 - 1 stands for the one size that 16 bits cannot hold
        if 512 <= size <= 65536 and size & (size - 1) == 0:
            return int(size)
    return DEFAULT_PAGE_BYTES


def _logged_pages(log: bytes, page_bytes: int) -> dict[int, bytes]:
    """The newest version of each page that a finished transaction left in the write-ahead log."""
    committed: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    frame_bytes = _FRAME_HEADER_BYTES + page_bytes
    for start in range(_LOG_HEADER_BYTES, len(log) - frame_bytes + 1, frame_bytes):
        number, pages_after_commit = struct.unpack_from(">II", log, start)
        if log[start + 8 : start + 16] != log[16:24]:  # the salts: frames from here on are left over from before
            break
        begin = start + _FRAME_HEADER_BYTES
        pending[number] = log[begin : begin + page_bytes]
        if pages_after_commit:
            committed |= pending
            pending = {}
    return committed


def _rows_of_leaf(page: bytes, pages: dict[int, bytes]) -> Iterator[FoundRow]:
    (cells,) = struct.unpack_from(">H", page, 3)
    for index in range(min(cells, (len(page) - 8) // 2)):
        (at,) = struct.unpack_from(">H", page, 8 + 2 * index)
        try:
            row = _row(page, at, pages)
        except (IndexError, ValueError, struct.error):
            continue  # this is the damage that is being read around
        if row is not None:
            yield row


def _row(page: bytes, at: int, pages: dict[int, bytes]) -> FoundRow | None:
    length, at = _varint(page, at)
    _number, at = _varint(page, at)
    usable = len(page)  # qchat's files reserve no bytes at the end of a page
    local = length
    if length > usable - 35:
        least = (usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (usable - 4)
        local = local if local <= usable - 35 else least
    payload = page[at : at + local]
    if local < length:
        payload += _overflow(page, at + local, length - local, pages)
    return _record(payload, length)


def _overflow(page: bytes, at: int, missing: int, pages: dict[int, bytes]) -> bytes:
    """The rest of a long row, as far as its chain of pages can be believed."""
    found = []
    (number,) = struct.unpack_from(">I", page, at)
    while missing > 0:
        part = pages.get(number, b"")
        if len(part) < len(page):
            break
        (number,) = struct.unpack_from(">I", part, 0)
        here = min(missing, len(part) - 4)
        missing -= here
        if (missing == 0) != (number == 0) or (missing and number not in pages):
            break  # not a page of this chain
        found.append(part[4 : 4 + here])
    return b"".join(found)


def _record(payload: bytes, length: int) -> FoundRow | None:
    header_bytes, at = _varint(payload, 0)
    kinds = []
    while at < header_bytes:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    if at != header_bytes or not kinds:
        return None
    columns = []
    whole = len(payload) == length
    for kind in kinds:
        value, at = _value(payload, at, kind)
        if isinstance(value, bytes) and kind % 2:  # text
            text = value.decode("utf-8", "replace")
            whole = whole and text.encode() == value
            value = text
        columns.append(value)
    return FoundRow(tuple(columns), whole) if at == length else None


def _value(payload: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, at
    if kind in _INTEGER_BYTES:
        end = at + _INTEGER_BYTES[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack_from(">d", payload, at)[0], at + 8
    if kind in (8, 9):
        return kind - 8, at
    if kind < 12:
        raise ValueError("a kind of value that is reserved")
    end = at + (kind - 12) // 2
    return payload[at:end], end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of 1 to 9 bytes, 7 bits in each but the ninth, and where the next begins."""
    number = 0
    for index in range(9):
        byte = data[at + index]
        if index == 8:
            return number << 8 | byte, at + 9
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at + index + 1
    raise AssertionError
