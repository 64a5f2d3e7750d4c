"""A reply that loops is noticed; one that only resembles itself is not."""

from __future__ import annotations

import random

import pytest

from app.engine.repetition import LEAST_TOKENS, LEAST_TURNS, LONGEST_CYCLE, RepetitionWatch


def first_noticed(tokens: list[int]) -> int | None:
    watch = RepetitionWatch()
    for count, token in enumerate(tokens, 1):
        watch.push(token)
        if watch.looping:
            return count
    return None


@pytest.mark.parametrize("cycle", [1, 2, 7, 31, 32, LONGEST_CYCLE])
def test_a_cycle_is_noticed_as_soon_as_it_has_lasted(cycle: int) -> None:
    before = list(range(1000, 1100))
    loop = [i % cycle for i in range(2000)]
    expected = len(before) + cycle + max(LEAST_TOKENS, LEAST_TURNS * cycle)  # the first turn repeats nothing yet
    assert first_noticed(before + loop) == expected


def test_a_cycle_that_breaks_off_begins_anew() -> None:
    almost = [1, 2] * (LEAST_TOKENS // 2)
    assert first_noticed([*almost, 3] * 3) is None


def test_a_numbered_list_and_a_table_are_not_loops() -> None:
    numbered = [token for line in range(400) for token in (7, line, 8, 9)]
    rng = random.Random(0)
    table = [token for _ in range(300) for token in (5, rng.randrange(50), 5, rng.randrange(50), 6)]
    assert first_noticed(numbered) is None
    assert first_noticed(table) is None


def test_a_cycle_longer_than_the_watch_is_left_alone() -> None:
    assert first_noticed([i % (LONGEST_CYCLE + 1) for i in range(5000)]) is None
