"""Server-sent events by the standard, and the two liberties beyond it."""

from __future__ import annotations

import pytest

from app.backends.openai.events import EventParser, ServerEvent


def parse(*pieces: bytes) -> tuple[list[ServerEvent], str]:
    parser = EventParser()
    events = [event for piece in pieces for event in parser.push(piece)]
    return events + parser.end(), parser.unframed


def datas(data: bytes) -> list[str]:
    return [event.data for event in parse(data)[0]]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"data: a\n\n", ["a"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", ["a", "b", "c"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b": comment\n\n:\n\ndata: a\n: inside\n\n", ["a"]),
        (b"retry: 3000\n\nid: 1\nevent: x\n\ndata: a\n\n", ["a"]),  # an event without data is none
        (b"data:\n\ndata\n\ndata: a\n\n", ["a"]),
        (b"data: a", ["a"]),  # the last blank line forgotten
        (b"data: a\n", ["a"]),
        (b"", []),
    ],
)
def test_events(data: bytes, found: list[str]) -> None:
    assert datas(data) == found


def test_an_event_has_a_name_which_does_not_stick() -> None:
    assert parse(b"event: x\ndata: a\n\ndata: b\n\n")[0] == [ServerEvent("x", "a"), ServerEvent("", "b")]


def test_an_error_counts_without_data() -> None:
    assert parse(b"event: error\n\n")[0] == [ServerEvent("error", "")]


def test_what_belongs_to_no_event_is_kept() -> None:
    body = b'{"error":\n {"message": "x"}}\n\n<html>\n'
    assert parse(body) == ([], body.decode().replace("\n\n", "\n").rstrip("\n"))
    assert parse(b"data: a\n\n: c\nid: 1\nretry: 2\nevent: e\n\n")[1] == ""


def test_what_is_kept_has_a_limit() -> None:
    parser = EventParser()
    for _ in range(20):
        parser.push(b"x" * (1 << 20) + b"\n")
    assert len(parser.unframed) < 9 << 20
