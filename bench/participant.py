"""What takes part in a measurement, what is measured, and in which order: always in turn.

A machine that others use too is never the same twice, so an absolute number says little; what stands is the ratio of
two speeds that were taken moments apart, and the share of the memory limit of the same moment.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

PROMPT, GENERATED = 512, 128  # llama-bench's pp512 and tg128


@dataclass(frozen=True)
class Speeds:
    """Tokens a second: reading PROMPT tokens, and generating GENERATED of them one by one, both at the same depth."""

    prompt: float
    generate: float


@dataclass(frozen=True)
class Reading:
    """One turn: the speeds, and the memory limit around it, 10^9 bytes a second."""

    speeds: Speeds
    limit: float


class Participant(Protocol):
    """An engine with a model. `measure` takes both speeds with `depth` tokens in the cache before."""

    name: str

    def measure(self, depth: int) -> Speeds: ...

    def close(self) -> None: ...


def room(depth: int) -> int:
    """Tokens of context that a measurement at `depth` needs."""
    return depth + PROMPT + GENERATED


def take_turns(
    participants: Sequence[Participant], repetitions: int, depth: int, limit: Callable[[], float]
) -> list[list[Reading]]:
    """Readings of each participant, [participant][repetition]."""
    readings: list[list[Reading]] = [[] for _ in participants]
    for _ in range(repetitions):
        for one, taken in zip(participants, readings, strict=True):
            before = limit()
            speeds = one.measure(depth)
            taken.append(Reading(speeds, max(before, limit())))
    return readings


def ratio(values: Sequence[float], base: Sequence[float]) -> float:
    """Median of the ratios of pairs."""
    return statistics.median(a / b for a, b in zip(values, base, strict=True))
