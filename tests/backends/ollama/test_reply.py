"""What an Ollama server says, and what becomes of it when the server misbehaves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.backends.base import Answer, Event, Thinking
from app.backends.ollama.backend import OllamaBackend
from app.errors import BackendError, BackendTimeoutError, ContextOverflowError
from tests.backends.ollama.asking import QUESTION, ask, opened
from tests.backends.ollama.server import CUT, WAIT, FakeOllama, Model, last, line, serving
from tests.home import qchat_home

__all__ = ["qchat_home"]

pytestmark = pytest.mark.usefixtures("qchat_home")

GOOD = [
    line({"thinking": "Let me "}),
    line({"thinking": "see."}),
    line({"content": "Blü"}),
    line({"content": "e 天."}),
    last(),
]


def scripted(*pieces: Any, **settings: Any) -> Any:
    with serving(FakeOllama(script=pieces)) as fake:
        return ask(fake, settings=settings)


def test_thinking_and_answer_come_apart_with_what_they_took() -> None:
    with serving(FakeOllama()) as fake:
        reply = ask(fake).reply
    assert (reply.thinking, reply.answer, reply.finish_reason) == (
        "Let me see.",
        "Blue, by Rayleigh scattering.",
        "stop",
    )
    usage = reply.usage
    assert usage is not None and usage.first_token_s is not None and 0 < usage.first_token_s < 60
    assert (usage.prompt_tokens, usage.generated_tokens, usage.prefill_s, usage.decode_s) == (26, 7, 0.25, 0.5)
    assert usage.reused_tokens is None  # the server does not say


def test_it_streams_and_leaving_ends_the_connection() -> None:
    """The first words are there while the server is still writing; R08: stopping closes the socket at once."""

    async def leave_early(backend: OllamaBackend, fake: FakeOllama) -> list[Event]:
        events = backend.chat(QUESTION)
        found = [await anext(events), await anext(events)]
        await events.aclose()
        assert await asyncio.to_thread(fake.gone.wait, 60)
        await backend.close()
        return found

    with serving(FakeOllama(script=[line({"thinking": "hm"}), line({"content": "Bl"}), WAIT])) as fake:
        assert asyncio.run(leave_early(opened(fake), fake)) == [Thinking("hm"), Answer("Bl")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_where_the_bytes_are_cut_makes_no_difference(size: int) -> None:
    text = b"".join(GOOD)
    reply = scripted(*(text[i : i + size] for i in range(0, len(text), size))).reply
    assert (reply.thinking, reply.answer, reply.finish_reason) == ("Let me see.", "Blüe 天.", "stop")


def test_blank_lines_crlf_and_unknown_fields_mean_nothing() -> None:
    text = b"\r\n".join([b"", *(each.rstrip() for each in GOOD), b"", b""])
    extra = text.replace(b'"done": false', b'"done": false, "remote_model": null, "logprobs": [1]')
    assert scripted(extra).reply.answer == "Blüe 天."
    assert scripted(b"".join(GOOD).rstrip()).reply.finish_reason == "stop"  # no line end at the end


def test_calls_are_calls() -> None:
    call = {"name": "get_weather", "arguments": {"city": "Tokyo </tool_call>"}}
    with serving(FakeOllama(answer="I look.", calls=[call, {"index": 1, "name": "now", "arguments": {}}])) as fake:
        reply = ask(fake).reply
    assert reply.answer == "I look."
    assert [(each.name, each.arguments) for each in reply.tool_calls] == [
        ("get_weather", {"city": "Tokyo </tool_call>"}),
        ("now", {}),
    ]


@pytest.mark.parametrize(
    "call",
    [
        {},
        "x",
        {"function": None},
        {"function": {"name": 5, "arguments": {}}},
        {"function": {"name": "f", "arguments": [1]}},
    ],
)
def test_what_is_no_call_is_shown_and_not_lost(call: Any) -> None:
    asked = scripted(line({"content": "I look."}), line({"tool_calls": [call]}), last())
    assert asked.error is None and not asked.reply.tool_calls
    assert asked.reply.answer.startswith("I look.") and asked.notices


def test_a_limit_is_told_as_such() -> None:
    with serving(FakeOllama()) as fake:
        reply = ask(fake, replace(QUESTION, max_tokens=4)).reply
    assert (reply.answer, reply.finish_reason) == ("Blue,", "length")


def test_a_stop_ends_the_answer_and_not_the_thinking() -> None:
    with serving(FakeOllama(thinking="see by me", script=None)) as fake:
        reply = ask(fake, replace(QUESTION, stop=("by Ray",))).reply
    assert (reply.thinking, reply.answer, reply.finish_reason) == ("see by me", "Blue, ", "stop")


@pytest.mark.parametrize("cut", range(1, 16))
def test_thinking_that_came_apart_leaves_no_tag_and_no_blank_lines(cut: int) -> None:
    """R05: the closing tag at the front of the content, cut anywhere, and newlines around the place of the tags."""
    rest = "\n</think>\n\nBlue"
    pieces = [line({"thinking": "\nhm\n\n"}), line({"content": rest[:cut]}), line({"content": rest[cut:]}), last()]
    reply = scripted(*pieces).reply
    assert (reply.thinking, reply.answer) == ("hm", "Blue")


def test_tags_in_the_text_of_a_server_that_takes_none_out() -> None:
    reply = scripted(line({"content": "<thi"}), line({"content": "nk>hm</think>\n\nBlue"}), last()).reply
    assert (reply.thinking, reply.answer) == ("hm", "Blue")


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([CUT], "ended the connection without a reply"),
        ([b""], "ended the connection without a reply"),
        ([b'{"error": "model runner has unexpectedly stopped"}\n'], "reported: model runner has unexpectedly stopped"),
        ([b'{"error": "a \\u001b[2J b", "status": 500}\n'], r"reported: a \x1b[2J b"),
        ([b'{"error": {"message": "plain"}}\n'], "reported: plain"),
        ([b"<html><title>502 Bad Gateway</title>\n"], "a web page, '502 Bad Gateway'"),
        ([b"[1]\n"], "no line of a reply: "),
        ([b"<html><title>502 Bad Gateway</title>"], "sent no reply but a web page, '502 Bad Gateway'"),
        ([b'"text"\n'], "no line of a reply: "),
        ([b"[" * 100_000 + b"\n"], "no line of a reply: "),
    ],
)
def test_a_reply_that_never_begins_is_an_error_in_the_server_s_words(pieces: list[Any], said: str) -> None:
    asked = scripted(*pieces)
    assert isinstance(asked.error, BackendError) and asked.error.exit_code == 3
    assert said in asked.error.message and "work" in asked.error.message
    assert asked.error.message.isprintable() and len(asked.error.message) < 400
    assert asked.reply.answer == "" and asked.reply.finish_reason == "error"


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([CUT], "broke off in the middle of the reply"),
        ([last()[:-40], CUT], "broke off in the middle of the reply"),
        ([last()[:-40]], "broke off in the middle of the reply"),
        ([], "broke off in the middle of the reply"),
        (
            [b'{"error":"an error was encountered while running the model"}\n'],
            "broke off with: an error was encountered",
        ),
        ([b"\xff\xfe\x00\n"], "no line of a reply: "),
    ],
)
def test_what_came_before_a_failure_is_kept(pieces: list[Any], said: str) -> None:
    """R04: neither an error as an answer, nor an answer that seems whole."""
    asked = scripted(line({"thinking": "hm"}), line({"content": "Blue, <tool"}), *pieces)
    assert isinstance(asked.error, BackendError) and said in asked.error.message
    assert (asked.reply.thinking, asked.reply.answer) == ("hm", "Blue, <tool")
    assert asked.reply.finish_reason == "error"


def test_bytes_that_are_no_text_do_not_cost_the_line() -> None:
    broken = line({"content": "Bl?e"}).replace(b"?", b"\xff\xc3")
    reply = scripted(broken, last()).reply
    assert reply.answer == "Bl\ufffd\ufffde" and reply.finish_reason == "stop"


def test_halves_of_pairs_are_made_text_that_can_be_saved() -> None:
    reply = scripted(b'{"message": {"content": "a \\ud83d b"}}\n', last()).reply
    assert reply.answer == "a \ufffd b"


def test_a_line_without_end_is_not_gathered_for_ever() -> None:
    piece = b'{"message": {"content": "' + b"x" * (1 << 20)
    asked = scripted(line({"content": "Blue"}), *([piece] * 9), last())
    assert asked.error is not None and "a line of more than 8 MB" in asked.error.message
    assert asked.reply.answer == "Blue"


def test_a_reason_of_the_server_s_own_is_told() -> None:
    asked = scripted(line({"content": "Blue"}), last("unload"))
    assert asked.reply.finish_reason == "stop"
    assert asked.notices == ["work ended the reply for a reason of its own: unload"]
    old = line({}, done=True)  # before servers gave a reason
    assert scripted(line({"content": "Blue"}), old).notices == []


def test_silence_has_limits_of_its_own() -> None:
    before = scripted(WAIT, first_token_timeout=0.2)
    assert isinstance(before.error, BackendTimeoutError) and before.error.exit_code == 4
    after = scripted(line({"content": "Blue"}), WAIT, idle_timeout=0.2)
    assert isinstance(after.error, BackendTimeoutError) and after.reply.answer == "Blue"


def test_a_conversation_that_is_too_long_is_refused_and_not_cut() -> None:
    long = replace(QUESTION, messages=[{"role": "user", "content": "word " * 50}])
    with serving(FakeOllama()) as fake:
        asked = ask(fake, long)
        assert isinstance(asked.error, ContextOverflowError)
        assert len(fake.asked("/api/chat")) == 1
        # The server would have shortened it in silence, had it not been told.
        assert ask(fake, long, settings={"body": {"truncate": True}}).error is None


@pytest.mark.parametrize("tells", [True, False])
def test_a_model_that_cannot_think_answers_and_says_so(tells: bool) -> None:
    with serving(FakeOllama(models=[Model(thinks=False, tells_capabilities=tells)])) as fake:
        asked = ask(fake, replace(QUESTION, thinking=True))
        assert asked.reply.answer == fake.answer
        assert asked.notices == ["this model does not think, so --think changes nothing"]
        assert [body.get("think") for body in fake.asked("/api/chat")] == ([None] if tells else [True, None])
        assert ask(fake, replace(QUESTION, thinking=False)).notices == []


@pytest.mark.parametrize(
    ("refuse", "said"),
    [
        ((500, b'{"error": "llama runner process has terminated"}'), "500 Internal Server Error: llama runner process"),
        ((500, b""), "500 Internal Server Error"),
        ((400, b'{"error": "\\"x\\" does not support chat"}'), '"x" does not support chat'),
        ((401, b'{"error": "unauthorized"}'), "401 Unauthorized: unauthorized"),
    ],
)
def test_a_refusal_is_told_in_the_server_s_words(refuse: tuple[int, bytes], said: str) -> None:
    with serving(FakeOllama(refuse=refuse)) as fake:
        asked = ask(fake)
        assert isinstance(asked.error, BackendError) and said in asked.error.message
        assert len(fake.asked("/api/chat")) == 1  # nothing is asked twice that was worked on


def test_a_busy_server_is_asked_again_and_no_more_than_three_times() -> None:
    with serving(FakeOllama(refuse=(503, b'{"error": "server busy, please try again."}'))) as fake:
        asked = ask(fake)
        assert asked.error is not None and "server busy" in asked.error.message
        assert len(fake.asked("/api/chat")) == 3
