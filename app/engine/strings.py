"""An array of strings as a header holds it: one block of bytes, and where each string begins and ends in it.

A vocabulary has 150,000 tokens and as many merges, and a first answer needs a few hundred of them. Making an object of
each would take most of the time in which a small model starts, and more memory than all the rest of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, overload

import numpy as np
from numpy.typing import NDArray

LENGTH_BYTES = 8  # before each string: its length, little-endian
WINDOW = 1 << 16  # bytes that are searched at a time
_LENGTH = struct.Struct("<Q")


class Bytes(Protocol):
    """What slices like bytes: bytes themselves, or a mapped file."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> bytes: ...


class Strings(Sequence[str]):
    """An immutable sequence of strings. data: all of them, in UTF-8; string i is data[begins[i] : ends[i]]."""

    def __init__(self, data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        self.data = data
        self.begins, self.ends = begins.astype(np.int32), ends.astype(np.int32)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """The same strings, kept in this way."""
        parts = [text.encode() for text in texts]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        begins = np.concatenate(([0], ends[:-1])) if parts else ends
        return cls(b"".join(parts), begins, ends)

    def raw(self, index: int) -> bytes:
        """String `index` in UTF-8."""
        return self.data[self.begins[index] : self.ends[index]]

    def __len__(self) -> int:
        return len(self.begins)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self.raw(i).decode() for i in range(*index.indices(len(self)))]
        return self.raw(index).decode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]  # as a list: compared by what it holds


@dataclass(frozen=True)
class Unread:
    """An array of strings that was passed over: that there are `count` of them is all that is known."""

    count: int

    def __len__(self) -> int:
        return self.count


def locate(header: Bytes, position: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the texts of `count` strings, each after its length, begin and end in `header` from `position` on.

    Fewer where the next one does not fit: then its length or its text would pass the end of `header`.
    """
    nothing = np.empty(0, np.int64)
    found = [(nothing, nothing), *_stretches(header, position, count)]
    return np.concatenate([begins for begins, _ in found]), np.concatenate([ends for _, ends in found])


def pass_over(header: Bytes, position: int, count: int) -> tuple[int, int]:
    """(how many of `count` strings fit, where the last of them ends), as `locate` finds them, without its memory."""
    found = 0
    for _, ends in _stretches(header, position, count):
        if len(ends):
            found, position = found + len(ends), int(ends[-1])
    return found, position


def _stretches(header: Bytes, position: int, count: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """What `locate` finds, window by window."""
    while count and position + LENGTH_BYTES <= len(header):
        heads, lengths = _chained(header[position : position + WINDOW])
        begins = (position + LENGTH_BYTES + heads)[:count]
        ends = begins + lengths[:count]
        fitting = int(np.searchsorted(ends, len(header), side="right"))
        yield begins[:fitting], ends[:fitting]
        if fitting < len(ends):
            return
        count -= fitting
        position = int(ends[-1])


def _chained(window: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the length fields that follow each other from the start of `window`, and the lengths.

    Lengths under 256 have seven zero bytes, which are rare elsewhere, and in any seven lie four that are one word: all
    words of zero are found at once. What they make lengths is believed as far as each leads exactly to the next. From
    there on the fields are read one by one.
    """
    words = np.frombuffer(window, "<u4", len(window) // 4)
    zero = np.flatnonzero(words[1:-1] == 0) + 1
    before, after = words[zero - 1], words[zero + 1]
    n_before = (before < 1 << 24).view(np.uint8) + (before < 1 << 16) + (before < 1 << 8)  # zeros right before the word
    shift = 24 - 8 * n_before
    is_field = after << (8 + 8 * n_before.astype(np.uint32)) == 0
    heads = 4 * zero - 1 - n_before
    lengths = (before >> shift).astype(np.int64)
    ends = heads + LENGTH_BYTES + lengths
    follows = is_field[1:] & (ends[:-1] == heads[1:])
    broken = np.flatnonzero(~follows)
    n_good = 0 if not heads.size or heads[0] else int(broken[0]) + 1 if broken.size else heads.size
    position = int(ends[n_good - 1]) if n_good else 0
    more_heads, more_lengths, limit = [], [], len(window) - LENGTH_BYTES
    while position <= limit:
        length = min(_LENGTH.unpack_from(window, position)[0], 1 << 62)  # a larger one would not fit into int64
        more_heads.append(position)
        more_lengths.append(length)
        position += LENGTH_BYTES + length
    more = np.array([more_heads, more_lengths], np.int64).reshape(2, -1)
    return np.concatenate((heads[:n_good], more[0])), np.concatenate((lengths[:n_good], more[1]))
