"""The reply splitter: one result for a reply, wherever it was cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.templates.reply import Answer, Notice, Part, ReplySplitter, Thinking, ToolCall


def split(pieces: list[str], starts_in_thinking: bool = False) -> list[Part]:
    splitter = ReplySplitter(starts_in_thinking)
    parts = [part for piece in pieces for part in splitter.push(piece)] + splitter.flush()
    merged: list[Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, (Thinking, Answer)) and type(last) is type(part):
            merged[-1] = type(part)(last.text + part.text)
        else:
            merged.append(part)
    return merged


CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "x < y"}}\n</tool_call>'
ADD: dict[str, Any] = {"a": 1, "b": "x < y"}
BROKEN = '<tool_call>\n{"name": "add", "arguments": {"a": \n</tool_call>'

REPLIES = [
    ("<think>secret</think>ANSWER", False, [Thinking("secret"), Answer("ANSWER")]),
    ("<think>\nsecret\n\nmore\n</think>\n\nANSWER", False, [Thinking("secret\n\nmore"), Answer("ANSWER")]),
    ("reason</think>\n\nanswer", True, [Thinking("reason"), Answer("answer")]),
    ("\n<think>\n\n</think>\n\nHi", False, [Answer("Hi")]),
    ("\n\n</think>\n\nHi", True, [Answer("Hi")]),
    ("if a < b: x <thing> y\n\n", False, [Answer("if a < b: x <thing> y\n\n")]),
    ("  spaces first", False, [Answer("  spaces first")]),
    ("<think>a ... </thi", False, [Thinking("a ... </thi")]),
    ("<thi", False, [Answer("<thi")]),
    ("<think>cut off\n", False, [Thinking("cut off\n")]),
    ("The <think> tag and </think> stay.", False, [Answer("The <think> tag and </think> stay.")]),
    (f"Adding.\n{CALL}\n{CALL}\nDone", False, [Answer("Adding."), *[ToolCall("add", ADD, CALL)] * 2, Answer("Done")]),
    (f"<think>need it\n{CALL}", False, [Thinking("need it"), ToolCall("add", ADD, CALL)]),
    (f"<think>{CALL}ok", False, [ToolCall("add", ADD, CALL), Answer("ok")]),
    (
        CALL.removesuffix("</tool_call>"),
        False,
        [ToolCall("add", ADD, CALL.removesuffix("</tool_call>"))],
    ),
]


@pytest.mark.parametrize(("reply", "starts_in_thinking", "expected"), REPLIES)
def test_same_parts_whole_cut_anywhere_and_by_character(
    reply: str, starts_in_thinking: bool, expected: list[Part]
) -> None:
    assert split([reply], starts_in_thinking) == expected
    assert split(list(reply), starts_in_thinking) == expected
    for cut in range(len(reply) + 1):
        assert split([reply[:cut], reply[cut:]], starts_in_thinking) == expected


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (f"See {BROKEN} after", Answer(f"See {BROKEN}")),
        ("A <tool_call> is a tag", Answer("A <tool_call>")),
        ("<tool_call>[1]</tool_call>", Answer("<tool_call>")),
        ('<tool_call>{"name": 1}</tool_call>', Answer('<tool_call>{"name": 1}</tool_call>')),
        ('<tool_call>{"name": "f", "arguments": []}</tool_call>', None),
        ('<tool_call>{"name": "f"', Answer('<tool_call>{"name": "f"')),
        ("<tool_call>" + '{"a":' * 100_000 + "</tool_call>", None),
    ],
)
def test_a_call_that_cannot_be_read_is_text_with_a_notice(reply: str, text: Answer | None) -> None:
    parts = split([reply])
    assert "".join(part.text for part in parts if isinstance(part, Answer)) == reply
    assert [type(part) for part in parts].count(Notice) == 1
    if text is not None:
        assert parts[0] == text
    if len(reply) < 1000:
        assert split(list(reply)) == parts


def test_speaking_of_a_call_while_thinking_does_not_swallow_the_answer() -> None:
    parts = split(['<think>then <tool_call>{"name"... or so\n</think>\n\nHi'])
    assert parts[0] == Thinking('then <tool_call>{"name"... or so')
    assert isinstance(parts[1], Notice)
    assert parts[2:] == [Answer("Hi")]


def test_only_what_can_become_a_tag_is_held_back() -> None:
    splitter = ReplySplitter(starts_in_thinking=False)
    assert splitter.push("a <") == [Answer("a ")]
    assert splitter.push(" b") == [Answer("< b")]
    assert splitter.push(" <tool_cal") == [Answer(" ")]
    assert splitter.push("m") == [Answer("<tool_calm")]


def test_long_runs_of_newlines_are_read_once() -> None:
    assert split(["\n" * 200_000 + "x"], starts_in_thinking=False) == [Answer("\n" * 200_000 + "x")]


_PIECES = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    '{"name": "f"}',
    "{",
    "<",
    "</t",
    "\n",
    " ",
    "a",
    "ß🙂",
]


@given(st.lists(st.sampled_from(_PIECES), max_size=14).map("".join), st.booleans(), st.data())
def test_no_cut_changes_the_parts_and_no_visible_character_is_lost(
    reply: str, starts_in_thinking: bool, data: st.DataObject
) -> None:
    whole = split([reply], starts_in_thinking)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(reply)), max_size=8)))
    pieces = [reply[start:end] for start, end in zip([0, *cuts], [*cuts, len(reply)], strict=True)]
    assert split(pieces, starts_in_thinking) == whole
    assert split(list(reply), starts_in_thinking) == whole
    shown = "".join(p.raw if isinstance(p, ToolCall) else p.text for p in whole if not isinstance(p, Notice))
    tags_taken = ("<think>", "</think>")
    for tag in tags_taken:
        reply, shown = reply.replace(tag, ""), shown.replace(tag, "")
    assert shown.replace("\n", "").lstrip() == reply.replace("\n", "").lstrip()
