"""One sample stream with everything in it, cut at every byte: into pieces, and off."""

from __future__ import annotations

import json

import pytest

from app.backends.base import ToolCall
from tests.backends.openai.replies import Heard, read
from tests.backends.remote.scripted_server import USAGE, delta


def call(**fields: object) -> dict[str, object]:
    return delta(tool_calls=[fields])


# R02 of the bug reports: comments, blank and foreign events, every line end, JSON over two lines, a byte order mark
CLEAN = [
    delta(role="assistant", content=""),
    delta(reasoning_content="思考"),
    delta(reasoning_content=" a\n\n"),
    delta(content="Grüße 👩‍👩‍👧 "),
    delta(content="漢字。"),
    call(index=0, id="c1", function={"name": "f", "arguments": '{"a":'}),
    call(index=0, function={"arguments": ' "é"}'}),
    delta(finish_reason="tool_calls"),
    USAGE,
]
NOISE = [
    b":\n\n",
    b": ping\n\n",
    b": ping\n",
    b"retry: 3000\n\n",
    b"id: 1\nevent: x\n\n",
    b"data:\n\n",
    b"data: : KEEPALIVE\n\n",
]


def raw(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


PLAIN = b"".join(b"data: " + raw(document) + b"\n\n" for document in CLEAN) + b"data: [DONE]\n\n"
TWO_LINES = raw(CLEAN[3]).replace(b'"delta"', b'\ndata: "delta"')
NOISY = (
    b"\xef\xbb\xbf"
    + b"".join(
        [
            b"data: " + raw(CLEAN[1]) + b"\r\n\r\n" + NOISE[0],  # were it lost to the mark, its words would be missed
            NOISE[1] + b"data:" + raw(CLEAN[0]) + b"\r\r" + NOISE[2],
            b"data: " + raw(CLEAN[2]) + b"\n\n" + NOISE[3] + NOISE[4],
            b"data: " + TWO_LINES + b"\n\n" + NOISE[5] + NOISE[6],
            *(b"event: message\ndata: " + raw(document) + b"\n\n" for document in CLEAN[4:]),
            b"data:[DONE]\n\n",
        ]
    )
)


def summary(heard: Heard) -> tuple[object, ...]:
    return heard.thinking, heard.answer, heard.calls, heard.notices, heard.done and heard.done.reason


WHOLE = ("思考 a", "Grüße 👩‍👩‍👧 漢字。", [("f", {"a": "é"})], "", "stop")


@pytest.mark.parametrize("sample", [PLAIN, NOISY], ids=["plain", "noisy"])
def test_a_stream_says_the_same_cut_in_two_at_every_byte(sample: bytes) -> None:
    for cut in range(len(sample) + 1):
        heard = read(sample[:cut], sample[cut:])
        assert summary(heard) == WHOLE, cut
        assert heard.done is not None
        assert (heard.done.usage.prompt_tokens, heard.done.usage.generated_tokens) == (7, 3), cut


def test_a_stream_says_the_same_byte_by_byte() -> None:
    assert summary(read(*(NOISY[i : i + 1] for i in range(len(NOISY))))) == WHOLE


@pytest.mark.parametrize("sample", [PLAIN, NOISY], ids=["plain", "noisy"])
def test_a_stream_that_is_cut_off_keeps_what_came_and_fails_unless_its_end_was_told(sample: bytes) -> None:
    told = sample.index(b'"finish_reason": "tool_calls"')
    told = sample.index(b"}]}", told) + 3
    for cut in range(len(sample)):
        heard = read(sample[:cut])
        assert WHOLE[0].startswith(heard.thinking.rstrip("\n")), cut
        assert WHOLE[1].startswith(heard.answer.partition("<tool_call>")[0]), cut
        assert all(isinstance(event, ToolCall) for event in heard.events if hasattr(event, "raw"))
        if cut < told:
            assert heard.error is not None, cut
            assert heard.done is None, cut
        else:
            assert heard.error is None, cut
            assert summary(heard) == WHOLE, cut


def test_a_call_that_is_cut_off_is_shown_as_text_and_never_made_up() -> None:
    heard = read(PLAIN[: PLAIN.rindex(b"data: ", 0, PLAIN.index("é".encode()))])
    assert heard.calls == []
    assert '{"a":' in heard.answer
    assert "not a tool call" in heard.notices
