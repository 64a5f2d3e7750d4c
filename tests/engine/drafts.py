"""A speculator that guesses as a test wants: right for a while, then wrong, with tokens that end a reply in between."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Collection, Sequence

from app.engine.speculation.speculator import Speculator

WRONG = 7  # a token that the models of the tests do not draw
Oracle = Callable[[Sequence[int], int], list[int]]


class RandomDrafts(Speculator):
    """`oracle(sequence, n)` says what follows; `special` are tokens to guess wrongly. Ignores `ends` on purpose."""

    def __init__(self, oracle: Oracle, special: Sequence[int], seed: int) -> None:
        super().__init__()
        self._oracle, self._special, self._random = oracle, special, random.Random(seed)
        self.drafts: list[tuple[Sequence[int], Sequence[int]]] = []  # guesses, and what was drawn
        self._draft: list[int] = []

    def propose(self, sequence: array[int], most: int, ends: Collection[int]) -> Sequence[int]:
        length = self._random.randint(0, 7)
        right = self._random.choice([0, length, self._random.randint(0, length)])
        draft = self._oracle(sequence, right) if right else []
        draft += [self._random.choice(self._special) for _ in range(length - right)]
        self._draft = draft[: max(most, 0)]
        return self._draft

    def record(self, drawn: Sequence[int], drafted: int, seconds: float) -> None:
        assert drafted == len(self._draft)
        self.drafts.append((self._draft, drawn))


class KnownReply(Speculator):
    """Knows the reply, and guesses its next tokens."""

    def know(self, reply: Sequence[int], right: int, guesses: int = 7, turns: int = 0) -> None:
        """From now on `right` guesses are of this reply and the others wrong; with `turns` it guesses only in every
        other stretch of so many steps."""
        self._reply, self._right, self._guesses, self._turns = reply, right, guesses, turns
        self._steps = 0

    def start(self, sequence: array[int]) -> None:
        self._prompt = len(sequence)

    def propose(self, sequence: array[int], most: int, ends: Collection[int]) -> Sequence[int]:
        self._steps += 1
        if self._turns and self._steps // self._turns % 2 == 0:
            return ()
        known = self._reply[len(sequence) - self._prompt :][: self._right]
        return [*known, *[WRONG] * self._guesses][: min(self._guesses, max(most, 0))]

    def record(self, drawn: Sequence[int], drafted: int, seconds: float) -> None:
        assert seconds >= 0
        assert drafted or len(drawn) == 1
