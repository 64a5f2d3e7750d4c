"""The automaton beside a search through the whole text, in growing and after every cut."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.speculation import automaton
from app.engine.speculation.automaton import COUNTED, SuffixAutomaton

# Few tokens repeat much. A list without a least size is mostly of some five: too short for anything to happen in it.
texts = st.one_of(
    *(st.lists(st.integers(0, n), min_size=least, max_size=40) for n in (0, 1, 2, 9) for least in (0, 10, 30))
)


def known(text: Sequence[int]) -> SuffixAutomaton:
    fresh = SuffixAutomaton()
    fresh.extend(array("q", text))
    return fresh


def longest_match(text: Sequence[int]) -> int:
    """The length of the longest suffix that occurs earlier, by trying all."""
    sizes = range(len(text) - 1, 0, -1)
    return next((n for n in sizes if any(text[i : i + n] == text[-n:] for i in range(len(text) - n))), 0)


def followers(text: Sequence[int], of: Sequence[int]) -> Counter[int]:
    """What followed each place of a substring, by looking at all of them."""
    return Counter(text[i + len(of)] for i in range(len(text) - len(of)) if text[i : i + len(of)] == of)


@given(texts)
def test_the_match_is_the_longest_suffix_that_occurred_before(text: list[int]) -> None:
    growing = SuffixAutomaton()
    for i, token in enumerate(text, 1):
        growing.extend(array("q", [token]))
        assert (growing.match(), len(growing)) == (longest_match(text[:i]), i)


@pytest.mark.parametrize("counted", [COUNTED, 1000])
@given(texts)
def test_a_draft_takes_the_most_frequent_follower_each_time(counted: int, text: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automaton, "COUNTED", counted)
        draft = known(text).draft(7)
    if draft is None:
        assert longest_match(text) == 0
        return
    before = text[len(text) - draft.match :]
    assert len(before) == longest_match(text)
    for token, share in zip(draft.tokens, draft.shares, strict=True):
        found = followers(text, before)
        if len(text) <= counted:  # no suffix was left out of the counting
            assert found[token] == max(found.values())
            assert share == pytest.approx(found[token] / found.total())
        assert found[token] > 0 and 0 < share <= 1
        before = [*before, token]
    if len(draft.tokens) < 7:
        assert not followers(text, before)


@given(texts, st.lists(st.tuples(st.integers(0, 60), st.lists(st.integers(0, 3), max_size=20)), max_size=5))
def test_after_any_cuts_it_is_as_if_it_had_never_known_more(text: list[int], cuts: list[tuple[int, list[int]]]) -> None:
    cut = known(text)
    for length, more in cuts:
        text = [*text[:length], *more]
        cut.truncate(length)
        cut.extend(array("q", more))
    fresh = known(text)
    assert cut._count == fresh._count and cut._link == fresh._link and cut._more == fresh._more
    for end in range(len(text), -1, -1):  # and so is everything that was before
        cut.truncate(end)
        assert (cut.match(), cut.draft(7)) == (longest_match(text[:end]), known(text[:end]).draft(7))


@given(texts, texts)
def test_the_common_prefix(text: list[int], other: list[int]) -> None:
    wanted = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    assert known(text).common_prefix(array("q", other)) == wanted


@pytest.mark.parametrize(
    ("followers", "helps"), [(automaton.MOST_FOLLOWERS, True), (automaton.MOST_FOLLOWERS + 1, False)]
)
def test_a_match_with_many_followers_is_no_help(followers: int, helps: bool) -> None:
    text = [token for follower in range(1, followers + 1) for token in (0, follower)]
    assert (known([*text, 0]).draft(7) is not None) == helps


def test_of_followers_that_are_equally_frequent_the_first_is_taken() -> None:
    draft = known([0, 1, 0, 2, 0, 3, 0]).draft(1)
    assert draft is not None and (draft.tokens, draft.shares) == ((1,), (1 / 3,))


def test_a_token_is_counted_for_few_suffixes_so_that_no_text_takes_long() -> None:
    assert sum(known([0] * 500)._count) <= 10_000


def test_a_share_is_one_at_most_where_a_token_was_counted_more_often_than_what_it_follows() -> None:
    """0 is counted at its first places only: later it is the end of too many texts that occurred. 1 follows there."""
    before = [*range(100, 120)]
    text = [token for n in range(20) for token in (*before[20 - n :], 0, 200 + n)]
    text += [token for n in range(40) for token in (300 + n, *before, 0, 1)]
    draft = known([*text, 400, 0]).draft(1)
    assert draft is not None and (draft.match, draft.tokens, draft.shares) == (1, (1,), (1.0,))


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 20).flatmap(lambda n: st.lists(st.integers(0, 3), min_size=n, max_size=3 * n)), min_size=3),
    st.integers(0, 300),
)
def test_a_long_conversation_is_forgotten_from_its_front(parts: list[list[int]], cut: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automaton, "MOST_TOKENS", 32)
        growing, text = SuffixAutomaton(), list[int]()
        for part in parts:
            growing.extend(array("q", part))
            text += part
            kept = len(growing._text)
            assert len(growing) == len(text) and kept <= 32
            assert list(growing._text) == text[len(text) - kept :]
            assert growing.draft(7) == known(text[len(text) - kept :]).draft(7)
        forgotten = len(text) - len(growing._text)
        length = min(cut, len(text))
        growing.truncate(length)
        assert len(growing) == (length if length > forgotten or not forgotten else 0)
        assert growing.common_prefix(array("q", text)) == (len(growing) if not forgotten or length <= forgotten else 0)


def test_half_is_kept_when_it_is_too_long_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "MOST_TOKENS", 32)
    growing = known(range(32))
    assert list(growing._text) == [*range(32)]
    growing.extend(array("q", [32]))
    assert (list(growing._text), len(growing)) == ([*range(17, 33)], 33)
    assert growing.common_prefix(array("q", growing._text)) == 0, "what it knows is not where the conversation begins"
    growing.truncate(18)
    assert (list(growing._text), len(growing)) == ([17], 18)
    growing.truncate(17)
    assert len(growing) == 0, "what was before is not known any more"
