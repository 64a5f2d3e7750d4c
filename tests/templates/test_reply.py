"""The reply splitter: one result for a reply, wherever it was cut."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.templates.reply import Answer, Notice, Part, ReplySplitter, Thinking, ToolCall


def split(pieces: Sequence[str], starts_in_thinking: bool = False) -> list[Part]:
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
FAR = 'use </tool_call> or </think> to end, " <tool_call> \\'
WRITE = f"<tool_call>{json.dumps({'name': 'write', 'arguments': {'text': FAR}})}</tool_call>"
UNBALANCED = '<tool_call>\n{"name": "add", "arguments": {"a": "1}}'
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
    (f"See\n{WRITE}\n\nDone", False, [Answer("See"), ToolCall("write", {"text": FAR}, WRITE), Answer("Done")]),
    (f"<think>\nso {WRITE} Hi", False, [Thinking("so "), ToolCall("write", {"text": FAR}, WRITE), Answer(" Hi")]),
    ("a < b\nx </t <tool", False, [Answer("a < b\nx </t <tool")]),
    (f" \n{CALL}", False, [Answer(" "), ToolCall("add", ADD, CALL)]),
]


@pytest.mark.parametrize(("reply", "starts_in_thinking", "expected"), REPLIES, ids=itertools.count())
def test_same_parts_whole_cut_anywhere_and_by_character(
    reply: str, starts_in_thinking: bool, expected: list[Part]
) -> None:
    assert split([reply], starts_in_thinking) == expected
    assert split(list(reply), starts_in_thinking) == expected
    for cut in range(len(reply) + 1):
        assert split([reply[:cut], reply[cut:]], starts_in_thinking) == expected


def notice(begin: str) -> Notice:
    return Notice(f"this is not a tool call that can be read, so it is shown as text: {begin}")


BROKEN_REPLIES = [
    (
        f"{UNBALANCED}\n</tool_call>\nso",  # the line ends inside a string, so that was none
        False,
        [Answer(f"{UNBALANCED}\n</tool_call>"), notice('<tool_call>\\n{"name": "add", "arguments…'), Answer("\nso")],
    ),
    (
        f'{UNBALANCED}</tool_call> so "x"',  # the end tag may be a string's, until x shows that it is not
        False,
        [Answer(f"{UNBALANCED}</tool_call>"), notice('<tool_call>\\n{"name": "add", "arguments…'), Answer(' so "x"')],
    ),
    (
        f"{UNBALANCED}</tool_call> so",  # or until the reply ends
        False,
        [Answer(f"{UNBALANCED}</tool_call>"), notice('<tool_call>\\n{"name": "add", "arguments…'), Answer(" so")],
    ),
    (
        f"{UNBALANCED}</tool_call>{CALL}",  # and the text from there on is read again
        False,
        [
            Answer(f"{UNBALANCED}</tool_call>"),
            notice('<tool_call>\\n{"name": "add", "arguments…'),
            ToolCall("add", ADD, CALL),
        ],
    ),
    (
        f"<think>\na{UNBALANCED}\n\n</think>\n\nHi",
        False,
        [Thinking(f"a{UNBALANCED}"), notice('<tool_call>\\n{"name": "add", "arguments…'), Answer("Hi")],
    ),
    (
        f"<think>\n{UNBALANCED}</think> </tool_call>",
        False,
        [Thinking(UNBALANCED), notice('<tool_call>\\n{"name": "add", "arguments…'), Answer(" </tool_call>")],
    ),
    (
        f"{WRITE[:-13]}, x </tool_call>",  # broken after a string that holds tags
        False,
        [
            Answer(WRITE[: WRITE.index("</") + 12]),
            notice('<tool_call>{"name": "write", "arguments…'),
            Answer(r" or </think> to end, \" <tool_call>"),
            notice("<tool_call>"),
            Answer(r' \\"}, x </tool_call>'),
        ],
    ),
    (
        '<tool_call>{"x": {"name": 1}</tool_call>',
        False,
        [Answer('<tool_call>{"x": {"name": 1}</tool_call>'), notice('<tool_call>{"x": {"name": 1}</tool_call>')],
    ),
    (
        f"<tool_call>{{'name': 'f'}}{CALL}a",  # a call inside a broken one is not to be carried out
        False,
        [
            Answer(f"<tool_call>{{'name': 'f'}}{CALL}"),
            notice("<tool_call>{'name': 'f'}<tool_call>\\n{\"…"),
            Answer("a"),
        ],
    ),
    (
        r'<tool_call>{"name": "\x"}</tool_call>a',
        False,
        [
            Answer(r'<tool_call>{"name": "\x"}</tool_call>'),
            notice(r'<tool_call>{"name": "\x"}</tool_call>'),
            Answer("a"),
        ],
    ),
    (
        f"<tool_call>\n\n{CALL}",  # a tag alone is no call, and does not spoil the next
        False,
        [Answer("<tool_call>"), notice("<tool_call>"), ToolCall("add", ADD, CALL)],
    ),
    ("<tool_call> \n</tool_ca", False, [Answer("<tool_call>"), notice("<tool_call>"), Answer(" \n</tool_ca")]),
    (
        f"{UNBALANCED}</tool_call><tool_call>{{",  # two at once when the reply ends
        False,
        [
            Answer(f"{UNBALANCED}</tool_call>"),
            notice('<tool_call>\\n{"name": "add", "arguments…'),
            Answer("<tool_call>{"),
            notice("<tool_call>{"),
        ],
    ),
    (
        f"so\n<tool_call>{{x}}\n</tool_call> then\n{CALL}",
        True,
        [
            Thinking("so\n<tool_call>{x}\n</tool_call>"),
            notice("<tool_call>{x}\\n</tool_call>"),
            Thinking(" then"),
            ToolCall("add", ADD, CALL),
        ],
    ),
    ("\n\n<tool_call>{", True, [Thinking("<tool_call>{"), notice("<tool_call>{")]),
]


@pytest.mark.parametrize(("reply", "starts_in_thinking", "expected"), BROKEN_REPLIES, ids=itertools.count())
def test_a_broken_call_is_text_up_to_the_first_end_tag_wherever_it_was_cut(
    reply: str, starts_in_thinking: bool, expected: list[Part]
) -> None:
    test_same_parts_whole_cut_anywhere_and_by_character(reply, starts_in_thinking, expected)


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
    ids=itertools.count(),
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


def test_a_call_is_held_back_no_longer_than_it_can_be_one() -> None:
    splitter = ReplySplitter(starts_in_thinking=False)
    assert splitter.push(f"{UNBALANCED}</tool_call> so") == []
    begin, _, rest = splitter.push("\nmore")
    assert (begin, rest) == (Answer(f"{UNBALANCED}</tool_call>"), Answer(" so\nmore"))
    assert splitter.push(' <tool_call>{"name": "f"} ') == [Answer(" ")]
    assert splitter.push("or") == [Answer('<tool_call>{"name": "f"} or')]
    assert splitter.push(" so</tool_") == [Answer(" so")]
    ending = splitter.push("call> ")
    assert (ending[0], type(ending[1]), ending[2]) == (Answer("</tool_call>"), Notice, Answer(" "))
    assert splitter.push('<tool_call>{"\\n\\') == []
    assert splitter.push("x") == [Answer('<tool_call>{"\\n\\x')]


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        ("\n" * 200_000 + "x", 1),
        (" " * 200_000 + "x", 1),
        ("a" + "\n" * 200_000 + "x", 1),
        (WRITE.replace("use", '\\"' * 100_000), 1),
        ('<tool_call>{"' + "</tool_call>" * 10_000, 3),
        ('<tool_call>{"</tool_call>' + '<tool_call>{""</tool_call>' * 5_000, 2 * 5_001),
        ("<tool_call>" + '{"a":' * 30_000 + "</tool_call>", 2),
    ],
    ids=["newlines", "spaces", "newlines in text", "call", "open string", "many broken calls", "nested call"],
)
def test_time_is_linear(reply: str, parts: int) -> None:
    """Well below a second where every character costs the same; minutes where one costs as much as what is held."""
    for pieces in ([reply], reply):
        start = time.process_time()
        assert len(split(pieces)) == parts
        assert time.process_time() - start < 8


def test_strings_of_a_call_are_whole_characters() -> None:
    call = r'<tool_call>{"name": "f\udc9d", "arguments": {"\ud83d": ["\ud83d\udc3a", "\ud83d"]}}</tool_call>'
    assert split([call]) == [ToolCall("f\ufffd", {"\ufffd": ["🐺", "\ufffd"]}, call)]


@pytest.mark.parametrize(("levels", "kind"), [(99, ToolCall), (101, Answer), (600, Answer), (100_000, Answer)])
def test_nesting_that_others_could_not_walk_through_is_refused(levels: int, kind: type[Part]) -> None:
    arguments = '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
    parts = split([f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'])
    assert type(parts[0]) is kind


_PIECES = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    '{"name": "f"}',
    '{"name": "',
    '"}',
    '"',
    "\\",
    ": ",
    "{",
    "}",
    "<",
    "</t",
    "\n",
    " ",
    "a",
    "ß🙂",
]
_TEXTS = st.lists(st.sampled_from(_PIECES), max_size=14).map("".join)
_JSON = st.recursive(_TEXTS | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3), max_leaves=5)


def shown(parts: Sequence[Part]) -> str:
    return "".join(part.raw if isinstance(part, ToolCall) else part.text for part in parts)


@settings(max_examples=400)
@given(_TEXTS, st.booleans(), st.data())
def test_no_cut_changes_the_parts_and_no_visible_character_is_lost(
    reply: str, starts_in_thinking: bool, data: st.DataObject
) -> None:
    whole = split([reply], starts_in_thinking)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(reply)), max_size=8)))
    pieces = [reply[start:end] for start, end in zip([0, *cuts], [*cuts, len(reply)], strict=True)]
    assert split(pieces, starts_in_thinking) == whole
    assert split(reply, starts_in_thinking) == whole
    parts = [part for part in whole if not isinstance(part, Notice)]
    thinks = starts_in_thinking or reply.lstrip().startswith("<think>")
    thought = next((n for n, part in enumerate(parts) if not isinstance(part, Thinking)), len(parts)) if thinks else 0
    before, after = shown(parts[:thought]), shown(parts[thought:])
    opening = "" if starts_in_thinking or not thinks else "<think>"
    expected = (reply.lstrip() if opening else reply).replace("\n", "")
    possible = {opening + before + end + after for end in ["", *["</think>"] * thinks]}
    assert expected in {text.replace("\n", "") for text in possible}


@given(_TEXTS, st.dictionaries(_TEXTS, _JSON, max_size=3), st.booleans(), st.booleans())
def test_whatever_its_strings_hold_a_call_comes_out_whole(
    name: str, arguments: dict[str, Any], in_thinking: bool, ascii_only: bool
) -> None:
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=ascii_only)
    raw = f"<tool_call>\n{call}\n</tool_call>"
    opening = Thinking("a") if in_thinking else Answer("a")
    expected = [opening, ToolCall(name, arguments, raw), Answer("b")]
    for pieces in ([f"a{raw}b"], f"a{raw}b"):
        assert split(pieces, in_thinking) == expected
