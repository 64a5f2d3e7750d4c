"""Tool calls from pieces, as servers number them and as they do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backends.openai.replies import Heard, read_documents
from tests.backends.remote.scripted_server import delta


def call(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"type": "function", "function": {k: v for k, v in function.items() if v is not None}, **fields}


def heard(*pieces: Any) -> Heard:
    chunks = [delta(tool_calls=piece if isinstance(piece, list) else [piece]) for piece in pieces]
    return read_documents(*chunks, delta(finish_reason="tool_calls"))


TWO = [("f", {"a": 1}), ("g", {"b": [2]})]


@pytest.mark.parametrize(
    "pieces",
    [
        # as the protocol says
        [
            call("f", "", index=0, id="x"),
            call(None, '{"a"', index=0),
            call(None, ":1}", index=0),
            call("g", '{"b":[2]}', index=1, id="y"),
        ],
        # interleaved
        [
            call("f", "", index=0, id="x"),
            call("g", '{"b"', index=1, id="y"),
            call(None, '{"a":1}', index=0),
            call(None, ":[2]}", index=1),
        ],
        # both in one chunk
        [[call("f", '{"a":1}', index=0), call("g", '{"b":[2]}', index=1)]],
        # without an index, by id
        [call("f", '{"a":', id="x"), call(None, "1}", id="x"), call("g", '{"b":[2]}', id="y")],
        # without an index, the id only at first
        [call("f", '{"a":', id="x"), call(None, "1}"), call("g", '{"b"', id="y"), call(None, ":[2]}")],
        # every call with index 0
        [call("f", '{"a":1}', index=0, id="x"), call("g", '{"b":[2]}', index=0, id="y")],
        [call("f", '{"a":1}', index=0), call("g", '{"b":[2]}', index=0)],
        # neither index nor id
        [call("f", '{"a":1}'), call("g", '{"b":[2]}')],
        # the name with every piece; the id late
        [call("f", '{"a"', index=0), call("f", ":1}", index=0, id="x"), call("g", '{"b":[2]}', index=1)],
        # arguments as an object
        [call("f", {"a": 1}, index=0), call("g", {"b": [2]}, index=1)],
        # empty ids
        [call("f", '{"a":1}', index=0, id=""), call("g", '{"b":[2]}', index=1, id="")],
    ],
)
def test_two_calls(pieces: list[Any]) -> None:
    found = heard(*pieces)
    assert found.calls == TWO
    assert (found.answer, found.notices, found.error) == ("", "", None)


def test_a_name_may_come_in_pieces() -> None:
    assert heard(call("get_", index=0), call("weather", "{}", index=0)).calls == [("get_weather", {})]


@pytest.mark.parametrize("arguments", [None, "", "  ", "{}"])
def test_a_call_may_have_no_arguments(arguments: str | None) -> None:
    assert heard(call("f", arguments, index=0)).calls == [("f", {})]


def test_arguments_may_speak_of_tags_and_halves_of_characters() -> None:
    found = heard(call("f", '{"a": "</tool_call> <think> \ud83d', index=0), call(None, '\udc3a \\ud83d"}', index=0))
    assert found.calls == [("f", {"a": "</tool_call> <think> 🐺 �"})]


@pytest.mark.parametrize("arguments", ["{", '{"a": 1', "[1]", '"text"', '{"a": NaN}', "17"])
def test_what_is_no_call_is_shown_as_text_with_a_notice(arguments: str) -> None:
    found = heard(call("f", arguments, index=0))
    assert found.calls == []
    assert arguments in found.answer
    assert "not a tool call" in found.notices


def test_newlines_between_thinking_and_a_call_belong_to_neither() -> None:
    thought, called = delta(reasoning="hm\n"), delta(tool_calls=[call("f", '{"a":1}', index=0)])
    found = read_documents(thought, delta(content="\n\n"), called, delta(finish_reason="tool_calls"))
    assert (found.thinking, found.answer, found.calls) == ("hm", "", [TWO[0]])


def test_calls_come_after_the_answer_and_as_text_of_the_model_too() -> None:
    text = '<tool_call>\n{"name": "g", "arguments": {"b": [2]}}\n</tool_call>'
    assert read_documents(delta(content=f"Well: {text}"), delta(finish_reason="stop")).calls == [TWO[1]]
    found = read_documents(
        delta(content="Well. "), delta(tool_calls=[call("f", '{"a":1}', index=0)]), delta(finish_reason="tool_calls")
    )
    assert (found.answer, found.calls) == ("Well. ", [TWO[0]])
