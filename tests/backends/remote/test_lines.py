"""Lines out of bytes that were cut anywhere."""

from __future__ import annotations

import pytest

from app.backends.remote.lines import LineSplitter
from app.errors import BackendError

SAMPLE = "\ufeffone\r\ntwo\rthree\n\n\r\n\r四 👩‍👩‍👧\u2028\x85\x0bfive\r\nsix\r".encode()
LINES = ["one", "two", "three", "", "", "", "四 👩‍👩‍👧\u2028\x85\x0bfive", "six"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_the_lines_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    splitter = LineSplitter()
    pieces = [SAMPLE[i : i + size] for i in range(0, len(SAMPLE), size)]
    assert [line for piece in pieces for line in splitter.push(piece)] == LINES
    assert splitter.rest() == ""


def test_two_pieces_cut_at_every_byte() -> None:
    for cut in range(len(SAMPLE) + 1):
        splitter = LineSplitter()
        assert splitter.push(SAMPLE[:cut]) + splitter.push(b"") + splitter.push(SAMPLE[cut:]) == LINES, cut


def test_a_line_without_its_end_is_the_rest() -> None:
    splitter = LineSplitter()
    assert splitter.push(b"a\nb") == ["a"]
    assert splitter.rest() == "b"
    assert splitter.rest() == ""


def test_bytes_that_are_no_text_are_marked() -> None:
    assert LineSplitter().push(b"a\xff\xe5\x9bb\n") == ["a��b"]


def test_a_line_may_be_long_but_not_endless() -> None:
    splitter = LineSplitter(most_bytes=10)
    assert splitter.push(b"0123456789\n012345") == ["0123456789"]
    with pytest.raises(BackendError):
        splitter.push(b"67890")
