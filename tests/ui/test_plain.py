"""Plain output: the answer alone on stdout, the rest on stderr, and nothing that drives a terminal."""

from __future__ import annotations

import io

import pytest

from app.backends.base import Answer, Event, Notice, Progress, Thinking, ToolCall
from app.backends.usage import Usage
from app.chat.turn import Reply
from app.ui.plain import PlainOutput, statistics


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def shown(
    monkeypatch: pytest.MonkeyPatch,
    *events: Event,
    out_terminal: bool = False,
    err_terminal: bool = False,
    show_answer: bool = True,
    show_thinking: bool = False,
) -> tuple[str, str]:
    """What stdout and stderr hold after `events`."""
    out, err = Stream(out_terminal), Stream(err_terminal)
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    output = PlainOutput(show_answer=show_answer, show_thinking=show_thinking)
    for event in events:
        output.show(event)
    output.finish()
    return out.getvalue(), err.getvalue()


READING = Progress("reading the prompt", 5, 10)
EVENTS = (READING, Thinking("hm"), Answer("a\x1b[2J\r"), Notice("careful\x1b"), Answer("b"))


def test_piped_stdout_is_the_answer_as_it_is_and_one_newline(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, *EVENTS) == ("a\x1b[2J\rb\n", "qchat: careful\\x1b\n")


def test_a_terminal_gets_no_control_characters_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = shown(monkeypatch, *EVENTS, out_terminal=True)
    assert out == "a\\x1b[2J\\rb\n"


def test_a_notice_in_the_middle_of_an_answer_starts_a_line_on_a_shared_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, err = shown(monkeypatch, *EVENTS[2:], out_terminal=True, err_terminal=True)
    assert err == "\nqchat: careful\\x1b\n"


def test_thinking_goes_to_stderr_and_is_parted_from_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = shown(monkeypatch, Thinking("h\x1b"), Thinking("m"), Answer("a"), show_thinking=True)
    assert (out, err) == ("a\n", "h\x1bm\n\n")
    out, err = shown(monkeypatch, Thinking("h\x1b"), show_thinking=True, err_terminal=True)
    assert (out, err) == ("", "h\\x1b\n")
    out, err = shown(monkeypatch, Thinking("hm"), Notice("cut off"), show_thinking=True)
    assert (out, err) == ("", "hm\nqchat: cut off\n")


def test_no_answer_leaves_stdout_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, READING, Thinking("hm"), Answer("a"), show_answer=False) == ("", "")


def test_progress_is_one_line_on_a_terminal_that_is_cleared_before_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = Progress("fetching", 1234, None)
    out, err = shown(monkeypatch, READING, Answer("a"), unknown, out_terminal=True, err_terminal=True)
    assert out == "a\n"
    assert err == "\r\x1b[Kreading the prompt \r\x1b[K\r\x1b[Kfetching 1,234\r\x1b[K"
    assert all(len(part) < 20 for part in err.split("\r\x1b[K"))


def test_a_tool_call_is_shown_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, ToolCall("f", {}, "<tool_call>\x1b")) == ("", "<tool_call>\\x1b\n")


def test_closed_streams_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    output = PlainOutput()
    for event in EVENTS:
        output.show(event)
    output.finish()


def test_statistics_tell_each_stage_and_what_ran_it() -> None:
    usage = Usage(
        prompt_tokens=1100, reused_tokens=100, generated_tokens=21, prefill_s=2.0, decode_s=4.0, first_token_s=2.25
    )
    text = statistics(
        Reply(usage=usage), {"load_s": 0.5, "isa": "avx2", "resident_bytes": 123456, "notes": ["head is q4_0"]}
    )
    assert text.splitlines() == [
        "prompt          1,100 tokens, 100 of them reused; 2.00 s, 500.0 tokens/s",
        "reply           21 tokens; 4.00 s, 5.0 tokens/s; the first after 2.25 s",
        "load_s          0.50",
        "isa             avx2",
        "resident_bytes  123,456",
        "note            head is q4_0",
    ]
    guessed = Usage(drafted_tokens=1200, accepted_tokens=30, decode_steps=20, plain_steps=5, decode_s=1.0, plain_s=0.2)
    assert "speculation  drafted 1,200, accepted 30, 2.5 tokens a step, 2.00 times plain speed" in statistics(
        Reply(usage=guessed), {}
    )
    assert statistics(Reply(), {}) == ""


def test_statistics_leave_out_what_a_server_did_not_tell() -> None:
    known = Usage(prompt_tokens=10, generated_tokens=3, decode_s=1.0, first_token_s=0.5)
    assert statistics(Reply(usage=known), {}) == (
        "prompt  10 tokens\nreply   3 tokens; 1.00 s, 2.0 tokens/s; the first after 0.50 s"
    )
    assert statistics(Reply(usage=Usage(first_token_s=0.5)), {}) == "reply  the first after 0.50 s"
    assert statistics(Reply(usage=Usage()), {}) == ""
