"""Text that comes piece by piece has the picture of the text given at once, and settled text is not read again."""

from __future__ import annotations

import random

import pytest

from app.ui.markdown import stream as stream_module
from app.ui.markdown.flow import Flow
from app.ui.markdown.stream import MarkdownStream
from tests.ui.markdown.texts import random_text, rows_of_text


@pytest.mark.parametrize("block", range(4))
def test_every_prefix_has_the_picture_of_the_same_text_given_at_once(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        text, rng = random_text(seed), random.Random(seed)
        width = rng.choice((5, 12, 20, 40, 80))
        stream, flow, before, at = MarkdownStream(), Flow(width), [], 0
        while at < len(text):
            size = rng.choice((1, 1, 2, 3, 7))
            stream.feed(text[at : at + size])
            at = min(len(text), at + size)
            changed = flow.update(stream)
            assert flow.rows == rows_of_text(text[:at], width), (seed, text[:at])
            assert flow.rows[:changed] == before[:changed], (seed, text[:at])
            before = list(flow.rows)


# Texts whose last line changes what stands before it, each found by the test above while this was written.
@pytest.mark.parametrize(
    "text",
    [
        "text\na | b\n|-|-|\n",  # the second line was text until the third made it a header
        "text\na | b\n|-|-x\n",  # and is text again
        "text\n~~~`|-\n|--|--|\n---",  # an opening fence that turns out to be the header of a table
        "  - n\n|> \n  - n\n*",  # items of a list that are indented
        "```\ncode\n```x\n``` \nafter",  # a closing fence that turned out to be code
        "- a\n\n- b\n\n\n1. c\n2. d\ntext\n\n    code\n\n\n    more\n",
        "> quote\nlazy\n\n> other\n",
        "| a | b |\n|--|--|\n| 1 |\n- item\n",
        "a\r\nb\r\n\r\nc\rd",
    ],
)
def test_a_line_that_changes_what_stands_before_it(text: str) -> None:
    stream, flow = MarkdownStream(), Flow(40)
    for at, letter in enumerate(text, 1):
        stream.feed(letter)
        flow.update(stream)
        assert flow.rows == rows_of_text(text[:at])


def test_a_list_goes_on_with_its_numbers_after_its_first_items_settled() -> None:
    stream = MarkdownStream()
    for number in range(3, 200):
        stream.feed(f"{number}. item\n")
    assert [part.block.marker.strip() for part in stream.blocks()] == [f"{number}." for number in range(3, 200)]


@pytest.mark.parametrize(
    ("opening", "unit"),
    [
        ("", "Some **prose** that goes on.\n\n"),
        ("", "## A heading\n"),
        ("", "1. item\n   - nested\n"),
        ("| a | b |\n|---|---|\n", "| one | two |\n"),
        ("```python\n", "x = 1\n"),
    ],
)
def test_the_text_that_is_parsed_does_not_grow_with_what_stands_before(
    monkeypatch: pytest.MonkeyPatch, opening: str, unit: str
) -> None:  # U01
    parsed = 0
    real = stream_module.parse

    def counting(parser, source, *rest):
        nonlocal parsed
        parsed += len(source)
        return real(parser, source, *rest)

    monkeypatch.setattr(stream_module, "parse", counting)
    stream = MarkdownStream()
    stream.feed(opening)
    text = unit * 300
    for at in range(0, len(text), 10):
        stream.feed(text[at : at + 10])
    assert parsed < 20 * len(text)


def test_rows_of_a_growing_fence_and_table_are_laid_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.ui.markdown import flow as flow_module  # noqa: PLC0415 - next to what it patches

    laid_out = 0

    def counted(real):
        def wrapper(*arguments, **options):
            nonlocal laid_out
            laid_out += 1
            return real(*arguments, **options)

        return wrapper

    monkeypatch.setattr(flow_module, "plain_line", counted(flow_module.plain_line))
    monkeypatch.setattr(flow_module, "body_rows", counted(flow_module.body_rows))
    for opening, unit in (("```\n", "code\n"), ("|a|b|\n|-|-|\n", "|1|2|\n")):
        stream, flow, laid_out = MarkdownStream(), Flow(40), 0
        for piece in (opening, *[unit] * 200):
            stream.feed(piece)
            flow.update(stream)
        assert laid_out <= 2 * 200 + 2


def test_a_link_defined_earlier_works_and_one_defined_later_is_known_to_differ() -> None:
    stream = MarkdownStream()
    for piece in ("[a]: http://x.org\n\n", "text\n\n", "see [a]\n"):
        stream.feed(piece)
    assert stream.blocks()[-1].block.spans[-1].text == " (http://x.org)"
    assert stream.defines_links


def test_a_half_written_definition_does_not_keep_its_half_address() -> None:
    stream = MarkdownStream()
    for letter in "[a]: http://x.org\n\ntext\n\nsee [a]\n":
        stream.feed(letter)
    assert stream.blocks()[-1].block.spans[-1].text == " (http://x.org)"
