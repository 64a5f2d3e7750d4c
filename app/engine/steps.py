"""What follows a sequence of tokens, a step at a time: each step evaluated and drawn from here, or many on the device.

Both ways give the same tokens. A step evaluates the last token and the guesses of a draft, if there is one, and gives
one token and one more for each guess before the first wrong one.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.engine.decoder import GreedyRun, SelfRunning
from app.engine.known_cache import KnownCache
from app.engine.sampling import Sampler


@dataclass(frozen=True)
class Step:
    """The tokens that a step gave. `drafted`: guesses that it checked. `seconds`: where something else than the clock
    of whoever waited for it knows what it took."""

    drawn: Sequence[int]
    drafted: int
    seconds: float | None = None


class Steps(Protocol):
    """The steps of one reply."""

    def step(self, sequence: array[int], draft: Sequence[int], most: int) -> Step:
        """The tokens that follow `sequence`, of which `most` are wanted: more than there are guesses in `draft`.

        The cache keeps what is before the last of them. Raises Interrupted.
        """

    def close(self) -> None:
        """No more steps are wanted."""


class HostSteps:
    """Logits come here, and the sampler draws from each row as if it were alone.

    A draw depends on its position and the tokens before it, not on the step that it is made in.
    """

    def __init__(self, cache: KnownCache, sampler: Sampler, ends: Collection[int]) -> None:
        self._cache, self._sampler, self._ends = cache, sampler, ends

    def step(self, sequence: array[int], draft: Sequence[int], most: int) -> Step:
        before = len(self._cache)
        logits = self._cache.forward([sequence[-1], *draft], 1 + len(draft))
        history = sequence[:] if draft and self._sampler.params.penalises else sequence
        drawn: list[int] = []
        for row, guess in itertools.zip_longest(logits, draft):
            token = self._sampler.draw(row, len(sequence) + len(drawn), history)
            drawn.append(token)
            if token != guess or token in self._ends:
                break
            if history is not sequence:
                history.append(token)
        self._cache.truncate(before + len(drawn))
        return Step(drawn, len(draft))

    def close(self) -> None:
        """Nothing is under way between two steps."""


class DeviceSteps:
    """The device goes on by itself, and its tokens are read behind it.

    A draft is for the step after the tokens that were read, so it ends the run that is under way and waits for the next
    one, which begins when all tokens of the last have been read.
    """

    def __init__(self, device: SelfRunning, cache: KnownCache, ends: Collection[int], host: HostSteps) -> None:
        """`host` makes the step that a device leaves to it: one whose best logit is no finite number."""
        self._device, self._cache, self._ends, self._host = device, cache, ends, host
        self._run: GreedyRun | None = None

    def step(self, sequence: array[int], draft: Sequence[int], most: int) -> Step:
        self._cache.raise_if_cancelled()
        if self._run is not None:
            if draft:
                self._run.stop()
            if found := self._read(sequence, self._run, 0):
                return found
        self._run = self._device.run_greedily(sequence[-1], draft, most, self._ends)
        return self._read(sequence, self._run, self._run.drafted) or self._host.step(sequence, draft, most)

    def close(self) -> None:
        if self._run is not None:
            self._run.close()

    def _read(self, sequence: array[int], run: GreedyRun, drafted: int) -> Step | None:
        drawn, seconds = run.next_step()
        if not drawn:
            return None
        self._cache.note([sequence[-1], *drawn[:-1]])
        return Step(drawn, drafted, seconds)


def steps_of(cache: KnownCache, sampler: Sampler, ends: Collection[int]) -> Steps:
    """How the steps of a reply are made: by the device where the best token is what is wanted and it can."""
    host = HostSteps(cache, sampler, ends)
    decoder = cache.decoder
    if sampler.params.takes_the_best and isinstance(decoder, SelfRunning) and decoder.runs_by_itself:
        return DeviceSteps(decoder, cache, ends, host)
    return host
