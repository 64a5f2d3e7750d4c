"""The file in which a download grows: written by several connections at once, and recorded so that it can be gone on
with after any end, a killed process and a power cut included.

What the state says is here was on the disk before the state was. Never is more than `piece` bytes ahead of the state,
so no more than that is fetched twice.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from app.hub.download.space import writing
from app.hub.download.spans import Spans
from app.hub.download.state import State, load, save, state_path


@dataclass
class Claim:
    """The stretch that one connection fetches: [first, stop), of which [first, at) is here. stop None: to the end."""

    first: int
    stop: int | None
    at: int
    dropped: bool = False  # nobody waits for it any more: what comes is not written

    @property
    def complete(self) -> bool:
        """Whether all of it is here."""
        return self.at == self.stop


class Part:
    """The part at `path`. Made or taken up by `begin`; `write` may be called from any thread.

    `lost`: bytes that were here and are of another file. `on_ahead` is called, from the threads that write, when there
    is something `to_record`.
    """

    def __init__(self, path: Path, state: State, piece: int, lost: int = 0) -> None:
        self.path = path
        self.on_ahead: Callable[[], None] = lambda: None
        self.state = state
        self.lost = lost
        self._piece = piece
        self.size = state.identity.size  # bytes of the whole; None until it is known
        self._moved = threading.Condition()
        self._done = Spans(state.done)
        self._claims: list[Claim] = []
        self._ahead = 0  # bytes written since the state was
        with writing(path):
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)
            self._file.truncate(min(self._file.seek(0, 2), self._done_stop()))

    @classmethod
    def begin(cls, path: Path, wanted: State, piece: int) -> Part:
        """Go on with the part at `path` if it is surely of the file that `wanted` describes, else begin anew.

        `piece` is the most that may be ahead of the state, in bytes.
        """
        found = load(path)
        length = path.stat().st_size if path.exists() else 0
        here = Spans() if found is None else Spans(found.done).within(length)
        if found is not None and wanted.identity.certain and found.belongs_to(wanted):
            return cls(path, replace(wanted, done=tuple(here)), piece)
        return cls(path, replace(wanted, done=()), piece, here.total)

    @property
    def done(self) -> int:
        """Bytes that are here."""
        with self._moved:
            return self._reached().total

    @property
    def complete(self) -> bool:
        """Whether every byte is here."""
        return self.size is not None and self.done == self.size

    @property
    def unsaved(self) -> bool:
        """Whether anything is ahead of the state."""
        return self._ahead > 0

    @property
    def to_record(self) -> bool:
        """Whether so much is ahead of the state that it should be brought up to date."""
        return self._ahead >= self._piece // 2

    @property
    def frontier(self) -> int:
        """Where the first byte is missing."""
        with self._moved:
            return self._reached().frontier

    def claim(self, at_most: int) -> Claim | None:
        """The first stretch, of `at_most` bytes, that is neither here nor being fetched; None where there is none."""
        assert self.size is not None
        with self._moved:
            taken = Spans(self._done)
            for claim in self._claims:
                taken.add(claim.first, self.size if claim.stop is None else claim.stop)
            for first, stop in taken.gaps(self.size):
                return self._add(Claim(first, min(stop, first + at_most), first))
        return None

    def claim_all(self) -> Claim:
        """The whole file from its first byte on; what was here is forgotten."""
        with self._moved:
            for claim in self._claims:
                claim.dropped = True
            self._claims, self._done = [], Spans()
            return self._add(Claim(0, self.size, 0))

    def _add(self, claim: Claim) -> Claim:
        self._claims.append(claim)
        return claim

    def write(self, claim: Claim, data: bytes) -> bool:
        """Put the next bytes of `claim` in their place; what goes beyond its end is left out. False once it is dropped.

        Waits while `piece` bytes are ahead of the state.
        """
        with self._moved:
            if claim.stop is not None:
                data = data[: claim.stop - claim.at]
            while data and not claim.dropped:
                if self._ahead >= self._piece:
                    self._moved.wait()
                    continue
                with writing(self.path):
                    self._file.seek(claim.at)
                    written = self._file.write(data[: self._piece - self._ahead])
                data = data[written:]
                claim.at += written
                self._ahead += written
                if self.to_record:
                    self.on_ahead()
            return not claim.dropped

    def release(self, claim: Claim) -> None:
        """End a claim: what it fetched counts, what is missing can be claimed again, what comes late is dropped."""
        with self._moved:
            claim.dropped = True
            if claim in self._claims:
                self._claims.remove(claim)
                self._done.add(claim.first, claim.at)
            self._moved.notify_all()

    def settle(self) -> None:
        """What is here is all of it: for a file whose size nobody told."""
        with self._moved, writing(self.path):
            self.size = self._reached().total
            self._file.truncate(self.size)

    def record(self) -> None:
        """Bring the state up to what is here."""
        with self._moved:
            reached, ahead = self._reached(), self._ahead
        with writing(self.path):
            os.fsync(self._file.fileno())
            self.state = replace(self.state, done=tuple(reached))
            save(self.path, self.state)
        with self._moved:
            self._ahead -= ahead
            self._moved.notify_all()

    def close(self) -> None:
        """Let no late write through and close the file; the state stays as it was recorded."""
        with self._moved:
            for claim in self._claims:
                claim.dropped = True
            self._moved.notify_all()
            self._file.close()

    def remove(self) -> None:
        """Close and remove it, state and all."""
        self.close()
        remove(self.path)

    def _reached(self) -> Spans:
        reached = Spans(self._done)
        for claim in self._claims:
            reached.add(claim.first, claim.at)
        return reached

    def _done_stop(self) -> int:
        return max((stop for _, stop in self._done), default=0)


def remove(path: Path) -> None:
    """Remove the part at `path` and its state."""
    for file in (state_path(path), state_path(path).with_name(state_path(path).name + ".new"), path):
        file.unlink(missing_ok=True)
