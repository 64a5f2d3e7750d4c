"""Which bytes of a file are here: an ordered set of stretches [first, stop), and how HTTP writes one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")


class Spans:
    """Stretches of bytes that neither overlap nor touch."""

    def __init__(self, stretches: Iterable[tuple[int, int]] = ()) -> None:
        self._stretches: list[tuple[int, int]] = []
        for first, stop in stretches:
            self.add(first, stop)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._stretches)

    @property
    def total(self) -> int:
        """Bytes in all stretches."""
        return sum(stop - first for first, stop in self._stretches)

    @property
    def frontier(self) -> int:
        """Where the first byte is missing."""
        return self._stretches[0][1] if self._stretches and self._stretches[0][0] == 0 else 0

    def add(self, first: int, stop: int) -> None:
        """Take in [first, stop)."""
        if first >= stop:
            return
        apart = []
        for other_first, other_stop in self._stretches:
            if other_stop < first or stop < other_first:
                apart.append((other_first, other_stop))
            else:
                first, stop = min(first, other_first), max(stop, other_stop)
        self._stretches = sorted([*apart, (first, stop)])

    def within(self, size: int) -> Spans:
        """What of these lies below `size`."""
        return Spans((first, min(stop, size)) for first, stop in self._stretches if first < size)

    def gaps(self, size: int) -> Iterator[tuple[int, int]]:
        """The stretches of [0, size) that are missing, in order."""
        at = 0
        for first, stop in self.within(size):
            if at < first:
                yield at, first
            at = stop
        if at < size:
            yield at, size


@dataclass(frozen=True)
class ContentRange:
    """What the header of that name says: the bytes [first, stop) of `size`, if that is known."""

    first: int
    stop: int
    size: int | None


def content_range(text: str | None) -> ContentRange | None:
    """RFC 9110, 14.4; None where there is none or it makes no sense."""
    found = _CONTENT_RANGE.fullmatch((text or "").strip())
    if found is None:
        return None
    first, last = int(found[1]), int(found[2])
    size = None if found[3] == "*" else int(found[3])
    if last < first or (size is not None and last >= size):
        return None
    return ContentRange(first, last + 1, size)
