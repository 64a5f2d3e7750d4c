"""Arithmetic of stretches, of Content-Range and of Retry-After."""

from __future__ import annotations

import itertools
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hub.download.failures import retry_after
from app.hub.download.identity import Identity, sha256_in, validators
from app.hub.download.spans import ContentRange, Spans, content_range

STRETCHES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


@given(STRETCHES, st.integers(0, 45))
def test_stretches_are_a_set_of_bytes(stretches: list[tuple[int, int]], size: int) -> None:
    spans = Spans(stretches)
    there = {byte for first, stop in stretches for byte in range(first, stop)}
    listed = list(spans)
    assert {byte for first, stop in listed for byte in range(first, stop)} == there
    assert all(one[1] < other[0] for one, other in itertools.pairwise(listed)), "apart and in order"
    assert spans.total == len(there)
    assert spans.frontier == next(byte for byte in range(50) if byte not in there)
    assert {byte for first, stop in spans.gaps(size) for byte in range(first, stop)} == set(range(size)) - there
    assert {byte for first, stop in spans.within(size) for byte in range(first, stop)} == there & set(range(size))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bytes 0-99/100", ContentRange(0, 100, 100)),
        (" bytes 5-5/* ", ContentRange(5, 6, None)),
        ("bytes 50-40/100", None),
        ("bytes 0-100/100", None),
        ("bytes */100", None),
        ("bytes -5-5/100", None),
        ("items 0-9/10", None),
        ("bytes 0-9/10, bytes 10-19/20", None),
        ("bytes 0-" + "9" * 30 + "/*", None),
        ("", None),
        (None, None),
    ],
)
def test_a_content_range_is_exact_or_none(text: str | None, found: ContentRange | None) -> None:
    assert content_range(text) == found


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("120", 120), (" 7 ", 7), ("9" * 400, math.inf), ("-3", None), ("soon", None), ("", None), (None, None)],
)
def test_retry_after_in_seconds(text: str | None, seconds: float | None) -> None:
    assert retry_after(text, 1000.0) == seconds


def test_retry_after_as_a_date() -> None:
    now = 1_700_000_000.0
    for ahead, seconds in ((90, 90.0), (-90, 0.0)):
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(now + ahead))
        assert retry_after(date, now) == seconds


def test_two_answers_are_of_one_file_by_the_best_that_both_know() -> None:
    known = Identity(10, sha256="a", etag="e", modified="m")
    assert known.agrees(Identity(10, sha256="a", etag="other")) is True
    assert known.agrees(Identity(11, sha256="a")) is False
    assert known.agrees(Identity(10, etag="e", modified="other")) is True
    assert known.agrees(Identity(10, etag="other", modified="m")) is False
    assert known.agrees(Identity(10)) is None
    assert known.certain and not Identity(10).certain and not Identity(None, etag="e").certain


def test_a_weak_entity_tag_is_none_but_may_hold_a_hash() -> None:
    assert validators({"etag": 'W/"x"', "last-modified": "m"}) == (None, "m")
    assert validators({"etag": '"x"'}) == ('"x"', None)
    assert sha256_in('W/"' + "A" * 64 + '"') == "a" * 64
    assert sha256_in('"' + "a" * 40 + '"') is None
