"""Finding a text in a table of 150,000 without an object for each: sorted hashes, made in a few array operations.

The hash of bytes b is the sum of (b[i] + 1) * P^i modulo 2^64, so that of two texts put together follows from theirs.
A hash only says where to look: `find` compares the text itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from operator import mul

import numpy as np
from numpy.typing import NDArray

from app.engine.strings import Strings

PRIME = 0x9E3779B97F4A7C55  # any odd number without a pattern
_INVERSE = pow(PRIME, -1, 1 << 64)
_MASK = (1 << 64) - 1
_AT_A_TIME = 1 << 16  # bytes; what is computed for each of them is dropped before the next

Hashes = NDArray[np.uint64]


class TextIndex:
    """Where each text of `texts` stands in them."""

    def __init__(self, texts: Strings) -> None:
        self._texts = texts
        hashes = np.concatenate([np.empty(0, np.uint64), *(sums.whole() for sums in _Sums.of(texts))])
        self._order = np.argsort(hashes).astype(np.int32)
        self._sorted = hashes[self._order]
        self._view = memoryview(self._sorted.data)
        self._powers = _powers(PRIME, int(np.max(texts.ends - texts.begins, initial=0))).tolist()

    def find(self, text: str) -> int | None:
        """The index of `text`, or None."""
        data = text.encode()
        if len(data) > len(self._powers):
            return None
        wanted = sum(map(mul, (byte + 1 for byte in data), self._powers)) & _MASK
        at = bisect_left(self._view, wanted)
        while at < len(self._view) and self._view[at] == wanted:
            index = int(self._order[at])
            if self._texts.raw(index) == data:
                return index
            at += 1
        return None

    def repeated(self) -> str | None:
        """A text that is there twice, if there is one."""
        same = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        seen: set[bytes] = set()
        for at in np.union1d(same, same + 1):
            text = self._texts.raw(int(self._order[at]))
            if text in seen:
                return text.decode()
            seen.add(text)
        return None

    def hashes(self, without: NDArray[np.int64]) -> Hashes:
        """The hashes of all texts but those of these indices, sorted."""
        return self._sorted[~np.isin(self._order, without)]


def joins(pairs: Strings, known: Hashes) -> NDArray[np.bool_]:
    """Which of `pairs` ("left right") are of two texts with `known` hashes that make a third when put together."""
    found = [np.empty(0, np.bool_)]
    for sums in _Sums.of(pairs):
        left, right, whole = sums.halves()
        found.append(_among(left, known) & _among(right, known) & _among(whole, known) & sums.has_space())
    return np.concatenate(found)


def _among(hashes: Hashes, known: Hashes) -> NDArray[np.bool_]:
    if not known.size:
        return np.zeros(len(hashes), np.bool_)
    order = np.argsort(hashes)  # a search for neighbours, one after the other, finds their places in the cache
    ordered = hashes[order]
    places = np.minimum(np.searchsorted(known, ordered), known.size - 1)
    among = np.empty(len(hashes), np.bool_)
    among[order] = known[places] == ordered
    return among


class _Sums:
    """Running sums of the hash over a stretch of bytes, from which the hash of any part of it follows.

    A part that begins at byte k of the stretch has P^k too much in its sum, so it is multiplied by P^-k.
    """

    def __init__(self, octets: NDArray[np.uint8], begins: NDArray[np.int32], ends: NDArray[np.int32]) -> None:
        self._octets, self._begins, self._ends = octets, begins, ends
        terms = (octets + np.uint64(1)) * _powers(PRIME, len(octets))
        self._running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(terms)))
        self._back = _powers(_INVERSE, len(octets) + 2)

    @classmethod
    def of(cls, texts: Strings) -> Iterator[_Sums]:
        """Those of all of `texts`, some at a time."""
        data, first = np.frombuffer(texts.data, np.uint8), 0
        while first < len(texts):
            start = int(texts.begins[first])
            last = max(int(np.searchsorted(texts.ends, start + _AT_A_TIME)), first + 1)
            begins, ends = texts.begins[first:last] - start, texts.ends[first:last] - start
            yield cls(data[start : start + int(ends[-1])], begins, ends)
            first = last

    def whole(self) -> Hashes:
        """The hash of each string."""
        return self._part(self._begins, self._ends) * self._back[self._begins]

    def halves(self) -> tuple[Hashes, Hashes, Hashes]:
        """The hashes of what is before the first space, of what is after it, and of both without the space."""
        space = self._spaces()
        after = np.minimum(space + 1, self._ends)
        left = self._part(self._begins, space) * self._back[self._begins]
        right = self._part(after, self._ends)
        return left, right * self._back[after], left + right * self._back[self._begins + 1]

    def has_space(self) -> NDArray[np.bool_]:
        """Whether each string has a space."""
        return self._spaces() < self._ends

    def _part(self, begins: NDArray[np.int32], ends: NDArray[np.int32]) -> Hashes:
        sums: Hashes = self._running[ends] - self._running[begins]
        return sums

    def _spaces(self) -> NDArray[np.int32]:
        """Where the first space of each string is; its end where there is none."""
        spaces = np.append(np.flatnonzero(self._octets == ord(" ")), len(self._octets)).astype(np.int32)
        first: NDArray[np.int32] = np.minimum(spaces[np.searchsorted(spaces, self._begins)], self._ends)
        return first


def _powers(base: int, count: int) -> Hashes:
    """base^0 to base^(count - 1), modulo 2^64."""
    return _table(base, max(count, 2 * _AT_A_TIME).bit_length())[:count]


@cache
def _table(base: int, bits: int) -> Hashes:
    factors = np.full(1 << bits, base, np.uint64)
    factors[0] = 1
    return np.multiply.accumulate(factors)
