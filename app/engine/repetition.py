"""Noticing that a reply only repeats itself, so that it ends by itself and says why.

Small models fall into loops that no sampler setting rules out, and a loop costs minutes and helps nobody. A reply
counts as looping when its last tokens are one cycle, over and over, for longer than anything that people ask for.
"""

from __future__ import annotations

from collections import deque

LONGEST_CYCLE = 64  # tokens
LEAST_TOKENS = 256  # that a cycle must have filled
LEAST_TURNS = 8  # of the cycle in them


class RepetitionWatch:
    """Fed each token of one reply; `looping` once the end of it is a cycle."""

    def __init__(self) -> None:
        self._recent: deque[int] = deque(maxlen=LONGEST_CYCLE)  # newest first
        self._runs: dict[int, int] = {}  # by length of a cycle that holds now: for how many tokens it has

    def push(self, token: int) -> None:
        """Take the next token."""
        runs = self._runs
        self._runs = {n: runs.get(n, 0) + 1 for n, earlier in enumerate(self._recent, 1) if earlier == token}
        self._recent.appendleft(token)

    @property
    def looping(self) -> bool:
        """Whether the last tokens are one cycle for LEAST_TOKENS and LEAST_TURNS at least."""
        return any(run >= max(LEAST_TOKENS, LEAST_TURNS * cycle) for cycle, run in self._runs.items())
