"""What chunks of every dialect become: thinking, answer, calls, figures, and the reason of the end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.backends.base import Progress, Usage
from tests.backends.openai.replies import read, read_documents
from tests.backends.remote.scripted_server import HELLO, USAGE, delta, events

STOP = delta(finish_reason="stop")


def test_a_reply() -> None:
    heard = read_documents(*HELLO)
    assert (heard.answer, heard.thinking, heard.notices, heard.error) == ("Hello.", "", "", None)
    assert heard.done
    assert heard.done.reason == "stop"


# R01: no chunk is looked into without care


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [None]},
        {"choices": "x"},
        {"choices": [{}]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0, "delta": {}}]},
        {"choices": [{"index": 0, "delta": {"content": None, "reasoning": None, "tool_calls": None}}]},
        {"choices": [{"index": 0, "delta": {"content": 7, "reasoning_content": [], "tool_calls": [None, {}]}}]},
        {"choices": [{"index": 1, "delta": {"content": "of another choice"}}]},
        {"error": None, "choices": [], "usage": None, "timings": [], "unknown": {"deep": [1]}},
        {"usage": {"prompt_tokens": "many", "completion_tokens": None, "prompt_tokens_details": []}},
        "a text",
        "[1, 2]",
        "17",
        "{broken",
        "null",
    ],
)
@pytest.mark.parametrize("at", [0, 2, 4])
def test_an_odd_chunk_anywhere_changes_nothing(odd: Any, at: int) -> None:
    if isinstance(odd, dict) and str(odd).count("another choice") and at == 0:
        return  # the first choice that comes is the one that is followed
    heard = read_documents(*HELLO[:at], odd, *HELLO[at:])
    assert (heard.answer, heard.error) == ("Hello.", None)
    assert heard.done
    assert heard.done.usage.generated_tokens == 3


def test_the_only_choice_is_followed_whatever_its_number() -> None:
    chunks = [{"choices": [{"index": 1, "delta": {"content": text}}]} for text in ("a", "b")]
    assert read_documents(*chunks).answer == "ab"


@pytest.mark.parametrize("at", range(1, len(HELLO)))
def test_figures_count_whichever_chunk_brings_them(at: int) -> None:
    chunks = HELLO[:-1]
    carrying = [*chunks[: at - 1], chunks[at - 1] | {"usage": USAGE["usage"]}, *chunks[at:]]
    heard = read_documents(*carrying)
    assert heard.answer == "Hello."
    assert heard.done
    assert (heard.done.usage.prompt_tokens, heard.done.usage.generated_tokens) == (7, 3)


def test_figures_that_no_server_gave_are_not_made_up() -> None:
    done = read_documents(delta(content="a"), delta(content="b"), STOP).done
    assert done
    assert done.usage == Usage(first_token_s=1, decode_s=1)  # the clock of these tests ticks at each look


def test_the_last_of_several_figures_counts() -> None:
    chunks = [delta(content="a") | {"usage": {"completion_tokens": n}} for n in (1, 2, 3)]
    done = read_documents(*chunks, STOP).done
    assert done
    assert done.usage.generated_tokens == 3


def test_a_servers_own_measurements_are_taken() -> None:
    timings = {"prompt_ms": 250, "predicted_ms": 1500.0, "cache_n": 5, "draft_n": 8, "draft_n_accepted": 6}
    usage = read_documents(delta(content="a"), STOP, USAGE | {"timings": timings}).done.usage  # type: ignore[union-attr]
    assert (usage.prefill_s, usage.decode_s, usage.reused_tokens) == (0.25, 1.5, 5)
    assert (usage.drafted_tokens, usage.accepted_tokens) == (8, 6)
    cached = {"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}}
    assert read_documents(delta(content="a"), STOP, cached).done.usage.reused_tokens == 4  # type: ignore[union-attr]


def test_no_speed_is_made_of_tokens_that_were_thought_in_secret() -> None:
    hidden = {"usage": {"completion_tokens": 900, "completion_tokens_details": {"reasoning_tokens": 890}}}
    usage = read_documents(delta(content="a"), delta(content="b"), STOP, hidden).done.usage  # type: ignore[union-attr]
    assert (usage.generated_tokens, usage.decode_s) == (900, None)


def test_progress_of_the_prompt_is_passed_on() -> None:
    heard = read_documents({"choices": [], "prompt_progress": {"processed": 5, "total": 20}}, *HELLO)
    assert heard.events[0] == Progress("reading the prompt", 5, 20)


# R05: thinking under all its names


@pytest.mark.parametrize(
    "fields",
    [
        [{"reasoning_content": "hm "}, {"reasoning_content": "hm"}],
        [{"reasoning": "hm "}, {"reasoning": "hm"}],
        [{"reasoning_content": "hm ", "reasoning": "hm "}, {"reasoning": "hm", "reasoning_content": "hm"}],
        [{"reasoning_details": [{"type": "reasoning.text", "text": "hm "}, {"summary": "hm"}]}],
        [{"reasoning": "hm hm", "reasoning_details": [{"text": "hm hm"}]}],
        [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm hm"}]}]}],
        [{"content": "<think>\nhm hm\n</think>\n\n"}],
        [{"content": text} for text in ("<th", "ink>hm ", "hm</", "think>\n")],
        [{"reasoning_content": "\nhm hm\n\n"}],
        [{"reasoning_content": "hm hm", "content": ""}, {"content": None, "reasoning": None}],
    ],
)
@pytest.mark.parametrize("stray", ["", "\n\n", "</think>", "\n</think>\n\n", "</thi|nk>\n"])
def test_thinking_fills_one_pane_once(fields: list[dict[str, Any]], stray: str) -> None:
    if stray.strip() and "content" in fields[0] and not any("reasoning" in name for name in fields[0]):
        return  # there the tags are the server's own way, and a second one is text
    chunks = [delta(**each) for each in fields] + [delta(content=piece) for piece in stray.split("|")]
    heard = read_documents(*chunks, delta(content="4"), delta(content=" < 5\n"), STOP)
    assert (heard.thinking, heard.answer) == ("hm hm", "4 < 5\n")


def test_the_answer_is_not_searched_for_tags_that_it_speaks_of() -> None:
    heard = read_documents(
        delta(reasoning="hm"), delta(content="It ends with </think>, "), delta(content="</think>"), STOP
    )
    assert heard.answer == "It ends with </think>, </think>"
    assert read_documents(delta(content="</think>"), STOP).answer == "</think>"


def test_thinking_that_ends_the_reply_keeps_its_last_newlines() -> None:
    assert read_documents(delta(reasoning="hm\n"), delta(finish_reason="length")).thinking == "hm\n"


def test_a_reply_that_is_not_streamed_is_read_all_the_same() -> None:
    message = {"role": "assistant", "reasoning_content": "hm", "content": "4", "tool_calls": None}
    document = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": USAGE["usage"]}
    for body in (json.dumps(document), json.dumps(document, indent=2)):
        heard = read(body.encode())
        assert (heard.thinking, heard.answer, heard.error) == ("hm", "4", None)
        assert heard.done
        assert heard.done.usage.prompt_tokens == 7


# S04: halves of a pair


def test_halves_of_a_character_are_joined_across_pieces() -> None:
    wolf = '{"choices":[{"delta":{"content":"%s"}}]}'
    heard = read_documents(wolf % "a\\ud83d", wolf % "\\udc3ab\\ud83d", wolf % "c", STOP)
    assert heard.answer == "a🐺b�c"
    assert read_documents(wolf % "a\\ud83d", STOP).answer == "a�"
    thought = wolf.replace("content", "reasoning")
    assert read_documents(thought % "\\ud83d", thought % "\\udc3a", thought % "\\ud83d", STOP).thinking == "🐺�"


# How it ends


@pytest.mark.parametrize(
    ("word", "reason", "notice"),
    [
        ("stop", "stop", ""),
        ("tool_calls", "stop", ""),
        ("length", "length", ""),
        ("max_tokens", "length", ""),
        ("content_filter", "stop", "a filter of box ended the reply"),
        ("moon\x1b[2J", "stop", "box ended the reply for a reason of its own: moon\\x1b[2J"),
    ],
)
@pytest.mark.parametrize("done", [True, False])
def test_reasons(word: str, reason: str, notice: str, done: bool) -> None:
    heard = read_documents(delta(content="a"), delta(finish_reason=word), done=done)
    assert heard.done
    assert (heard.done.reason, heard.notices, heard.error) == (reason, notice, None)


def test_done_alone_ends_a_reply() -> None:
    heard = read_documents(delta(content="a"))
    assert heard.done
    assert heard.done.reason == "stop"


@pytest.mark.parametrize("word", ["error", "abort"])
def test_a_reason_that_is_a_failure(word: str) -> None:
    heard = read_documents(delta(content="a"), delta(finish_reason=word))
    assert heard.answer == "a"
    assert heard.error
    assert heard.done is None


# R04: errors under a status of 200


@pytest.mark.parametrize(
    "failure",
    [
        b'data: {"error": {"message": "over\x1b[2Jloaded", "code": 503}}\n\n',
        b'data: {"error": "over\\u001b[2Jloaded"}\n\n',
        b'event: error\ndata: {"message": "over\\u001b[2Jloaded"}\n\n',
        b"event: error\ndata: over\x1b[2Jloaded\n\n",
        b'{"error": {"message": "over\\u001b[2Jloaded"}}\n',
        b'{\n  "error": {\n    "message": "over\\u001b[2Jloaded"\n  }\n}\n',
        b'data: {"object": "error", "message": "over\\u001b[2Jloaded"}\n\n',
        b'data: {"type": "error", "error": {"message": "over\\u001b[2Jloaded"}}\n\n',
        b'data: {"choices": [{"delta": {}, "error": {"message": "over\\u001b[2Jloaded"}}]}\n\n',
    ],
)
@pytest.mark.parametrize("before", [0, 2])
def test_an_error_under_way_is_the_servers_own_words(failure: bytes, before: int) -> None:
    framed = not failure.startswith(b"{")
    after = events([delta(content="never")] if framed else [])
    heard = read(events(HELLO[1 : 1 + before], done=False) + failure + after)
    assert heard.error is not None
    assert "over\\x1b[2Jloaded" in heard.error.message
    assert "broke off" in heard.error.message if before else "broke off" not in heard.error.message
    assert heard.answer == ("Hello." if before else "")
    assert heard.done is None


def test_an_error_without_a_word_is_still_one() -> None:
    heard = read(events(HELLO[1:3], done=False) + b"event: error\n\n")
    assert heard.error is not None
    assert "without a message" in heard.error.message
    assert heard.answer == "Hello."


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<!DOCTYPE html><html><head><title>Sign &amp; in</title></head>\n</html>", "a web page, 'Sign & in'"),
        (b"<html>\n<body>hi</body></html>", "a web page"),
        (b"Bad\x1b[2J things", "Bad\\x1b[2J things"),
        (b"", "without a reply"),
        (b": ping\n\n", "without a reply"),
        (b"{}", "{}"),
    ],
)
def test_no_reply_at_all_is_told_from_an_empty_one(body: bytes, words: str) -> None:
    heard = read(body)
    assert heard.error is not None
    assert words in heard.error.message
    assert heard.events == []


def test_a_page_in_the_middle_of_a_reply_is_told() -> None:
    heard = read(events(HELLO[1:3], done=False) + b"<html><title>502 Bad Gateway</title></html>")
    assert heard.error is not None
    assert "broke off with: a web page, '502 Bad Gateway'" in heard.error.message
    assert heard.answer == "Hello."


def test_invalid_utf_8_is_marked_and_harms_nothing_else() -> None:
    body = events(HELLO).replace(b"lo.", b"l\xff\xe5\x9bo.")
    heard = read(body)
    assert heard.answer == "Hell��o."
    assert heard.done


def test_a_stop_text_ends_the_answer_and_nothing_else() -> None:
    body = events([delta(reasoning="half STOP"), delta(content="yes ST"), delta(content="OP no"), *HELLO])
    heard = read(body, stops=("STOP",))
    assert (heard.thinking, heard.answer) == ("half STOP", "yes ")
    assert heard.done
    assert heard.done.reason == "stop"
    assert heard.done.usage.generated_tokens is None
