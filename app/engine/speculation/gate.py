"""How many guesses a step should check: what its rows cost, how often guesses are right, and what it came to.

Nothing is measured beforehand. A step of T tokens costs c(T) times a plain one; c begins as an estimate, and each step
that checks guesses, which is work that had to be done, corrects it. How often guesses of a kind are right is seen at
every step, whether they were checked or not, so a reply that cannot be guessed costs nothing to find out.
"""

from __future__ import annotations

import statistics
from collections import deque

from app.engine.speculation.automaton import Draft

MOST_DRAFTED = 7  # with the token before them a step of 8, the largest that each thread prepares for itself
LEAST_GAIN = 1.03  # tokens for the time of a plain step

ROW_COST = 0.06  # of a plain step, for each row after the first, until it is known better
_FIRST_COST, _NEW_COST = 0.7, 0.25  # weight of the first measurement of c(T), and of one more
_FORGET = 0.002  # of the way back to the estimate, at each step without a draft: an unlucky measurement is tried again

# Guesses are alike when about as many tokens before them had occurred: 1, 2, 3-4, 5-8, 9-16, 17-32, more.
_PRIOR = (0.1, 0.25, 0.45, 0.6, 0.75, 0.85, 0.9)  # how often they are right, until it is known better
_PRIOR_WEIGHT = 4.0  # guesses that the prior counts as
_KEPT = 0.97  # of what was counted, at each further guess of the kind

_WINDOW, _LEAST_SEEN = 16, 8  # steps with drafts that say whether all this helps
_PARKED, _LONGEST_PARKED = 32, 256  # steps without drafts after it did not


class StepCosts:
    """c(T), the seconds of a step of T rows over those of a plain step at the time."""

    def __init__(self) -> None:
        self._plain: deque[float] = deque(maxlen=9)
        self._ratios = {1: 1.0}

    @property
    def plain_s(self) -> float | None:
        """Seconds of a plain step now; None until there were two."""
        return statistics.median(self._plain) if len(self._plain) > 1 else None

    def record(self, rows: int, seconds: float) -> None:
        """A step of so many rows took so long."""
        if rows == 1:
            self._plain.append(seconds)
        elif (plain_s := self.plain_s) is not None:
            measured = min(max(seconds / plain_s, 0.9), 1.5 * rows)  # what lies outside is somebody else's doing
            before = self.ratio(rows)
            weight = _NEW_COST if rows in self._ratios else _FIRST_COST
            self._ratios[rows] = before + weight * (measured - before)

    def forget(self) -> None:
        """Move a little back to the estimate."""
        for rows in self._ratios:
            self._ratios[rows] += _FORGET * (1 + ROW_COST * (rows - 1) - self._ratios[rows])

    def ratio(self, rows: int) -> float:
        """c(rows): measured, or on the line between its neighbours."""
        if rows in self._ratios:
            return self._ratios[rows]
        low = max(known for known in self._ratios if known < rows)
        high = min((known for known in self._ratios if known > rows), default=0)
        slope = (self._ratios[high] - self._ratios[low]) / (high - low) if high else ROW_COST
        return self._ratios[low] + slope * (rows - low)


class Acceptance:
    """How often a guess is right, by the length of the match before it."""

    def __init__(self) -> None:
        self._right = [rate * _PRIOR_WEIGHT for rate in _PRIOR]
        self._guessed = [_PRIOR_WEIGHT] * len(_PRIOR)

    def rate(self, match: int, share: float) -> float:
        """The probability of a guess that followed in `share` of the cases."""
        kind = _kind(match)
        return min(1.0, share * self._right[kind] / self._guessed[kind])

    def record(self, match: int, share: float, right: bool) -> None:
        """A guess was right, or wrong."""
        kind = _kind(match)
        self._right[kind] = self._right[kind] * _KEPT + right
        self._guessed[kind] = self._guessed[kind] * _KEPT + share


def _kind(match: int) -> int:
    return min((match - 1).bit_length(), len(_PRIOR) - 1)


class Governor:
    """Looks at what steps with drafts brought, and stops them for a while when plain steps would have been faster."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, float]] = deque(maxlen=_WINDOW)  # tokens, plain steps' worth of time
        self._parked, self._next_parked = 0, _PARKED

    def allows(self) -> bool:
        """Whether this step may have a draft; asked once a step."""
        self._parked = max(0, self._parked - 1)
        return self._parked == 0

    def record(self, tokens: int, cost: float) -> None:
        """A step with a draft gave so many tokens in the time of `cost` plain steps."""
        self._steps.append((tokens, cost))
        gain = sum(tokens for tokens, _ in self._steps) / sum(cost for _, cost in self._steps)
        if len(self._steps) >= _LEAST_SEEN and gain < 1.0:
            self._parked, self._next_parked = self._next_parked + 1, min(2 * self._next_parked, _LONGEST_PARKED)
            self._steps.clear()
        elif len(self._steps) == _WINDOW:
            self._next_parked = _PARKED


def worthwhile(draft: Draft, acceptance: Acceptance, costs: StepCosts) -> int:
    """How many of the guesses make the most tokens for the time; 0 where none gains LEAST_GAIN."""
    best, best_gain = 0, LEAST_GAIN
    expected = reached = 1.0
    for i, share in enumerate(draft.shares, 1):
        reached *= acceptance.rate(draft.match + i - 1, share)
        expected += reached
        gain = expected / costs.ratio(1 + i)
        if gain > best_gain:
            best, best_gain = i, gain
    return best
