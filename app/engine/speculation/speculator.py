"""Drafts for one conversation: the automaton that guesses, the gate that decides, and what both learn from a step."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence

from app.engine.speculation.automaton import Draft, SuffixAutomaton
from app.engine.speculation.gate import MOST_DRAFTED, Acceptance, Governor, StepCosts, worthwhile

PLAIN_EVERY = 64  # steps with drafts in a row, after which a plain one says again what plain steps cost


class Speculator:
    """Goes with one decoder. Within a reply `propose` and `record` are called in turn, once a step."""

    def __init__(self) -> None:
        self._known = SuffixAutomaton()
        self._costs, self._acceptance, self._governor = StepCosts(), Acceptance(), Governor()
        self._guess: Draft | None = None  # of the step that comes
        self._since_plain = 0

    def start(self, sequence: array[int]) -> None:
        """A reply to the prompt `sequence` begins: what is known is cut back to where they agree."""
        self._known.truncate(self._known.common_prefix(sequence))
        self._read(sequence)

    def propose(self, sequence: array[int], most: int, ends: Collection[int]) -> Sequence[int]:
        """Tokens that may follow `sequence`, at most `most`, and none that is in `ends` or behind one."""
        self._read(sequence)
        self._guess = self._known.draft(MOST_DRAFTED)
        allowed = self._governor.allows()
        if self._guess is None or not allowed or self._costs.plain_s is None or self._since_plain >= PLAIN_EVERY:
            return ()
        count = min(worthwhile(self._guess, self._acceptance, self._costs), most)
        if count <= 0:
            self._costs.forget()
            return ()
        tokens = self._guess.tokens[:count]
        return tokens[: next((i for i, token in enumerate(tokens) if token in ends), count)]

    def record(self, drawn: Sequence[int], drafted: int, seconds: float) -> None:
        """The step after `propose` checked `drafted` guesses, took `seconds` and gave the tokens `drawn`."""
        self._since_plain = self._since_plain + 1 if drafted else 0
        if drafted and (plain_s := self._costs.plain_s) is not None:
            self._governor.record(len(drawn), seconds / plain_s)
        self._costs.record(1 + drafted, seconds)
        if self._guess is not None:
            for i, (token, guess, share) in enumerate(zip(drawn, self._guess.tokens, self._guess.shares, strict=False)):
                self._acceptance.record(self._guess.match + i, share, token == guess)  # only the last one can be wrong

    def _read(self, sequence: array[int]) -> None:
        self._known.extend(sequence[len(self._known) :])
