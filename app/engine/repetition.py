"""Noticing that a reply only repeats itself, so that it ends by itself and says why.

Small models fall into loops that no sampler setting rules out, and a loop costs minutes and helps nobody. A reply
counts as looping when its last tokens are one cycle, over and over, for longer than anything that people ask for.
"""

from __future__ import annotations

import numpy as np

LONGEST_CYCLE = 64  # tokens
LEAST_TOKENS = 256  # that a cycle must have filled
LEAST_TURNS = 8  # of the cycle in them


class RepetitionWatch:
    """Fed each token of one reply; `looping` once the end of it is a cycle. Costs a few microseconds a token."""

    def __init__(self) -> None:
        self._recent = np.full(LONGEST_CYCLE, -1, np.int64)  # newest first
        self._run = np.zeros(LONGEST_CYCLE, np.int64)  # for cycle length i + 1: how long it has held
        self._needed = np.maximum(LEAST_TOKENS, LEAST_TURNS * np.arange(1, LONGEST_CYCLE + 1))

    def push(self, token: int) -> None:
        """Take the next token."""
        self._run = np.where(self._recent == token, self._run + 1, 0)
        self._recent = np.roll(self._recent, 1)
        self._recent[0] = token

    @property
    def looping(self) -> bool:
        """Whether the last tokens are one cycle for LEAST_TOKENS and LEAST_TURNS at least."""
        return bool((self._run >= self._needed).any())
