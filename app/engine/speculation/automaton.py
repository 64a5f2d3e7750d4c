"""What followed the last time: a suffix automaton over the conversation, built a token at a time.

Blumer et al., "The smallest automaton recognizing the subwords of a text" (1985). Each state stands for a set of
substrings that end at the same places; the suffix link of the state of the whole text leads to the longest suffix that
occurred before, which is the match, and the transitions of that state are the tokens that followed it. Each state
counts the places where it ends, so the counts of where two transitions lead say how often each was the one.

Appending a token takes amortised constant time. Nothing is ever searched for: neither `match` nor `draft` looks at the
text. Every change is written to a journal, so the automaton is cut back, as the cache is, by taking changes back.

Most states have one transition: to the token that followed the first place where the state ends. It takes one number.
Only states with more transitions have a dictionary.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

MOST_TOKENS = 1 << 16  # that the automaton knows; it then forgets the older half. 0.15 kB each in text, 0.35 at worst
COUNTED = 16  # suffixes of the text that a new token is counted for: bounds its time in a text like "aaaa"
MOST_FOLLOWERS = 32  # a match with more is no help, and looking at all of them takes time

_LINK, _FIRST = -1, -2  # what the journal calls a suffix link and a state's first transition
_NONE = -1


@dataclass(frozen=True)
class Draft:
    """Guessed tokens. `match` is how many tokens before the first of them had occurred; shares[i] is how often
    tokens[i] was what followed, of all times, 0 < share <= 1."""

    match: int
    tokens: tuple[int, ...]
    shares: tuple[float, ...]


class SuffixAutomaton:
    """A text of tokens that grows and shrinks at its end. State 0 is the empty string; no transition leads to it."""

    def __init__(self) -> None:
        self._clear(0)

    def _clear(self, forgotten: int) -> None:
        self._text = array("i")
        self._link = array("i", [_NONE])
        self._length = array("i", [0])  # of the longest substring of the state
        self._end = array("i", [0])  # tokens up to the first place where the state ends: text[end] is what followed
        self._first = array("i", [0])  # where text[end] leads; nothing while end is the end of the text
        self._count = array("i", [0])  # places where the state ends
        self._more: dict[int, dict[int, int]] = {}  # all other transitions: state -> token -> state
        self._last = 0  # the state of the whole text
        self._journal = array("i")  # triples: state, token or _LINK or _FIRST, what was there before (0: nothing)
        self._marks = array("i")  # of each token: the journal's length and the number of states before it, the old last
        self._forgotten = forgotten  # tokens of the conversation before `_text`

    def __len__(self) -> int:
        """Tokens of the conversation, those forgotten included."""
        return self._forgotten + len(self._text)

    def common_prefix(self, tokens: array[int]) -> int:
        """How many of the conversation's first tokens equal `tokens`; 0 once it has forgotten any."""
        if self._forgotten:
            return 0
        low, high = 0, min(len(tokens), len(self._text))
        ours = array(tokens.typecode, self._text[:high])
        if ours == tokens[:high]:
            return high
        while high - low > 1:  # the first `low` tokens are equal, the first `high` are not
            middle = (low + high) // 2
            low, high = (middle, high) if ours[low:middle] == tokens[low:middle] else (low, middle)
        return low

    def extend(self, tokens: array[int]) -> None:
        """Append tokens."""
        if len(self._text) + len(tokens) <= MOST_TOKENS:
            for token in tokens:
                self._append(token)
            return
        latest = (self._text + array("i", tokens))[-(MOST_TOKENS // 2) :]
        self._clear(len(self) + len(tokens) - len(latest))
        for token in latest:
            self._append(token)

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens; all are forgotten where that reaches into what was forgotten before."""
        if self._forgotten >= length:
            self._clear(0)
            return
        while len(self) > length:
            self._take_back()

    def match(self) -> int:
        """How many of the last tokens occurred before as well."""
        link = self._link[self._last]
        return self._length[link] if link > 0 else 0

    def draft(self, most: int) -> Draft | None:
        """Up to `most` tokens that followed the match, each the most frequent after those before it; None if it has
        none or too many followers."""
        state = self._link[self._last]
        if state <= 0:
            return None
        match = self._length[state]
        tokens: list[int] = []
        shares: list[float] = []
        times = self._count[state] - 1  # one of them is the end of the text
        while len(tokens) < most:
            token, following = self._best_follower(state)
            if following == 0:
                break
            count = self._count[following]
            tokens.append(token)
            shares.append(count / max(times, count))  # a long suffix may be counted more often than a short one in it
            state, times = following, count
        return Draft(match, tuple(tokens), tuple(shares)) if tokens else None

    def _best_follower(self, state: int) -> tuple[int, int]:
        """The token that followed most often, of equals the first one, and where it leads; state 0 if none."""
        if self._end[state] == len(self._text):
            return 0, 0
        token, best = self._text[self._end[state]], self._first[state]
        more = self._more.get(state)
        if more is not None:
            if len(more) >= MOST_FOLLOWERS:
                return 0, 0
            for other, following in more.items():
                if self._count[following] > self._count[best]:
                    token, best = other, following
        return token, best

    def _append(self, token: int) -> None:
        link, length = self._link, self._length
        self._marks.extend((len(self._journal), len(link), self._last))
        position = len(self._text) + 1
        new = self._add_state(position, position, 0)
        state = self._last
        self._first[state] = new  # the state of the whole text has not been followed by anything yet
        self._text.append(token)
        self._last = new
        state = link[state]
        while state >= 0 and (following := self._following(state, token)) == 0:
            self._set_following(state, token, new)
            state = link[state]
        if state < 0:
            link[new] = 0
        elif length[state] + 1 == length[following]:
            link[new] = following
        else:
            link[new] = self._split(state, token, following)
        counted = new
        for _ in range(COUNTED):
            if counted <= 0:
                break
            self._count[counted] += 1
            counted = link[counted]

    def _split(self, state: int, token: int, following: int) -> int:
        """A copy of `following` for the substrings that are no longer than what `state` and `token` make."""
        copy = self._add_state(self._length[state] + 1, self._end[following], self._count[following])
        self._first[copy] = self._first[following]
        if following in self._more:
            self._more[copy] = dict(self._more[following])
        self._link[copy] = self._link[following]
        self._note(following, _LINK, self._link[following])
        self._link[following] = copy
        while state >= 0 and self._following(state, token) == following:
            self._set_following(state, token, copy)
            state = self._link[state]
        return copy

    def _following(self, state: int, token: int) -> int:
        if self._text[self._end[state]] == token:
            return self._first[state]
        more = self._more.get(state)
        return 0 if more is None else more.get(token, 0)

    def _set_following(self, state: int, token: int, following: int) -> None:
        if self._text[self._end[state]] == token:
            self._note(state, _FIRST, self._first[state])
            self._first[state] = following
            return
        more = self._more.setdefault(state, {})
        self._note(state, token, more.get(token, 0))
        more[token] = following

    def _add_state(self, length: int, end: int, count: int) -> int:
        for values, value in (
            (self._link, _NONE), (self._length, length), (self._end, end), (self._first, 0), (self._count, count)
        ):  # fmt: skip
            values.append(value)
        return len(self._link) - 1

    def _note(self, state: int, what: int, before: int) -> None:
        self._journal.extend((state, what, before))

    def _take_back(self) -> None:
        """Undo the last `_append`, its last change first."""
        counted = self._last
        for _ in range(COUNTED):
            if counted <= 0:
                break
            self._count[counted] -= 1
            counted = self._link[counted]
        journal_length, n_states, self._last = self._marks[-3:]
        for at in range(len(self._journal) - 3, journal_length - 3, -3):
            state, what, before = self._journal[at : at + 3]
            if what == _LINK:
                self._link[state] = before
            elif what == _FIRST:
                self._first[state] = before
            elif before != 0:
                self._more[state][what] = before
            else:
                del self._more[state][what]
                if not self._more[state]:
                    del self._more[state]
        for state in range(n_states, len(self._link)):
            self._more.pop(state, None)
        for values in (self._link, self._length, self._end, self._first, self._count):
            del values[n_states:]
        del self._journal[journal_length:]
        del self._marks[-3:], self._text[-1:]
