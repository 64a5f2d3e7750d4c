"""Stop strings against a whole-text oracle and the known failures (bug report N02)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.stop import StopFilter
from app.errors import UsageError


def stream(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    stop_filter = StopFilter(stops)
    shown = "".join(map(stop_filter.push, pieces))
    return shown + stop_filter.flush(), stop_filter.stopped


def oracle(text: str, stops: list[str]) -> tuple[str, bool]:
    """Grow the text by a character at a time; the first stop that it ends with cuts it."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[: end - max(map(len, complete))], True
    return text, False


@pytest.mark.parametrize(
    ("pieces", "stops", "shown", "stopped"),
    [
        pytest.param(["DEF", "G", "HI", "J"], ["DEFGHIJ"], "", True, id="over four tokens"),
        pytest.param(["?\n"], ["\n"], "?", True, id="text before it in the same token"),
        pytest.param(["DEF", "GX"], ["DEFGHIJ"], "DEFGX", False, id="only the beginning of one"),
        pytest.param(["DEF"], ["DEFGHIJ"], "DEF", False, id="cut off inside a possible stop"),
        pytest.param(["ab", "STOPcd", "ef"], ["STOP"], "ab", True, id="nothing after it"),
        pytest.param(["so\n", "\n👍", "x"], ["\n\n👍"], "so", True, id="with an emoji"),
        pytest.param(["xab", "c"], ["abc", "ab"], "x", True, id="one stop begins another"),
        pytest.param(["x", "a", "b", "c"], ["abc", "ab"], "x", True, id="one stop begins another, cut"),
        pytest.param(["xabc"], ["abc", "b"], "xa", True, id="the first complete one, not the first begun"),
        pytest.param(["xbc"], ["c", "bc"], "x", True, id="complete together: the longer"),
        pytest.param(["aab"], ["ab"], "a", True, id="a false start before it"),
        pytest.param(["aa", "ab"], ["aab"], "a", True, id="a false start that overlaps"),
        pytest.param(["a", "", "b"], [], "ab", False, id="no stops"),
    ],
)
def test_known_cases(pieces: list[str], stops: list[str], shown: str, stopped: bool) -> None:
    assert stream(pieces, stops) == (shown, stopped)


@pytest.mark.parametrize("text", ["", "tell me STOP now", "STO", "SSTSTOPP", "SSTOST", "xSTOP"])
@pytest.mark.parametrize("stops", [["STOP"], ["STOP", "TO"], ["STOPPED", "STO"], ["now", "e m"]])
def test_every_cut_gives_the_same_text(text: str, stops: list[str]) -> None:
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            assert stream([text[:first], text[first:second], text[second:]], stops) == oracle(text, stops)


@given(st.lists(st.text("abc", max_size=4), max_size=8), st.lists(st.text("abc", min_size=1, max_size=4), max_size=3))
def test_any_pieces_give_the_whole_text_answer(pieces: list[str], stops: list[str]) -> None:
    assert stream(pieces, stops) == oracle("".join(pieces), stops)


def test_holds_back_no_more_than_could_become_a_stop() -> None:
    stop_filter = StopFilter(["<end>", "\n\n"])
    assert stop_filter.push("hello <") == "hello "
    assert stop_filter.push("en") == ""
    assert stop_filter.push("t <e\n") == "<ent <e"
    assert stop_filter.push(".") == "\n."
    assert not stop_filter.stopped


def test_after_a_stop_nothing_more_comes_out() -> None:
    stop_filter = StopFilter(["."])
    assert stop_filter.push("a.b") == "a"
    assert stop_filter.push("more") == ""
    assert stop_filter.flush() == ""


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(UsageError, match="must not be empty"):
        StopFilter(["x", ""])
