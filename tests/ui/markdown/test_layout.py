"""Blocks as rows: no text lost at any width, wide characters counted in cells, tables that fit."""

from __future__ import annotations

from collections import Counter

import pytest
from rich.cells import cell_len

from app.ui.markdown.blocks import new_parser, parse
from app.ui.markdown.code import highlight
from app.ui.markdown.layout import rows_of
from app.ui.markdown.model import Block, Code, Item, Quote, Rule, Span, Table
from app.ui.markdown.table import fit
from app.ui.markdown.wrap import wrap
from tests.ui.markdown.texts import random_text, rows_of_text, shown


def text_of(block: Block) -> str:
    match block:
        case Code(_, text):
            return text.expandtabs(4)
        case Quote(children) | Item(_, children):
            return "".join(text_of(child.block) for child in children)
        case Table(header, _, rows):
            return "".join(span.text for row in (header, *rows) for cell in row for span in cell)
        case Rule():
            return ""
        case _:
            return "".join(span.text for span in block.spans)


def letters(text: str) -> Counter[str]:
    return Counter("".join(text.split()))


@pytest.mark.parametrize("width", [4, 5, 9, 17, 40, 100])
def test_no_letter_is_lost_and_no_row_is_wider_than_the_pane(width: int) -> None:
    for seed in range(200):
        for placed in parse(new_parser(), random_text(seed).replace("\x1b", "").replace("\r", ""), {}):
            rows = rows_of(placed.spaced, width)
            lines = ["".join(piece.text for piece in row.pieces) for row in rows]
            assert letters(text_of(placed.spaced.block)) <= letters("".join(lines)), seed
            assert max(map(cell_len, lines)) <= width, (seed, lines)


def test_words_wrap_at_spaces_and_long_words_are_folded() -> None:
    assert shown("one two three", 8) == ["one two", "three"]
    assert shown("a abcdefghij b", 4) == ["a", "abcd", "efgh", "ij b"]
    assert [row.joint for row in rows_of_text("one two abcdefghijkl", 8)] == [None, " ", ""]


def test_wide_characters_break_anywhere_but_before_closing_punctuation() -> None:  # U08
    assert shown("你好世界。再见", 8) == ["你好世", "界。再见"]
    assert shown("ab 你好世界", 6) == ["ab 你", "好世界"]


def test_a_joined_emoji_is_not_torn() -> None:  # U08
    family = "👨\u200d👩\u200d👧"
    assert shown(family * 3, 4) == [family * 2, family]
    assert shown("e\u0301" * 6, 4) == ["e\u0301" * 4, "e\u0301" * 2]


def test_a_line_of_20000_characters() -> None:  # U01
    rows = shown("x" * 20_000, 80)
    assert len(rows) == 250
    assert "".join(rows) == "x" * 20_000


def test_spans_keep_their_styles_across_rows() -> None:
    rows = wrap((Span("one "), Span("two three", ("strong",))), 8)
    assert [[tuple(piece) for piece in row.pieces] for row in rows] == [
        [("one ", (), True), ("two", ("strong",), True)],
        [("three", ("strong",), True)],
    ]


def test_a_quote_and_a_list_in_it() -> None:
    assert shown("> one two three four\n> - a\n>   b\n", 16) == ["▎ one two three", "▎ four", "▎", "▎ • a", "▎   b"]


def test_what_is_nested_too_deep_to_indent_keeps_its_markers_and_text() -> None:
    text = "".join(f"{'  ' * depth}- level{depth}\n" for depth in range(12))
    rows = shown(text, 20)
    assert all(any(f"level{depth}" in row for row in rows) for depth in range(12))
    assert "".join(rows).count("•") == 12


TABLE = "| name | what it does |\n|:--|--:|\n| a | something or other |\n| 中文 | b |\n"


def test_a_table_that_fits_has_its_natural_columns() -> None:
    assert shown(TABLE, 40) == [
        "name │       what it does",
        "─────┼───────────────────",
        "a    │ something or other",
        "中文 │                  b",
    ]


def test_a_table_too_wide_wraps_its_cells_and_parts_its_rows() -> None:
    rows = shown(TABLE, 20)
    assert rows[2:] == ["a    │  something or", "     │         other", "╌╌╌╌╌┼" + "╌" * 14, "中文 │             b"]
    assert {cell_len(row.split("│")[0]) for row in rows if "│" in row} == {5}


def test_wide_columns_share_what_narrow_ones_leave() -> None:
    assert fit((30, 4, 40), 30).widths == (10, 4, 10)
    assert fit((8, 4, 40), 30).widths == (8, 4, 12)


def test_a_table_with_more_columns_than_fit_is_stacked() -> None:
    assert shown(TABLE, 12) == [
        "name: a",
        "what it",
        "does:",
        "something or",
        "other",
        "╌" * 12,
        "name: 中文",
        "what it",
        "does: b",
    ]
    assert shown("| name | what |\n|-|-|\n", 6) == ["name", "what"]


def test_borders_stand_in_one_column_whatever_the_cells_hold() -> None:  # U08
    cells = ["👨\u200d👩\u200d👧", "🇩🇪", "e\u0301", "a\u200bb", "⚠\ufe0f", "ＡＢ", "שלום"]
    rows = shown("| x | y |\n|-|-|\n" + "".join(f"| {cell} | {cell} |\n" for cell in cells), 40)
    assert len({cell_len(row[: row.index("│")]) for row in rows if "│" in row}) == 1


def test_code_has_a_label_is_folded_and_keeps_its_spaces() -> None:
    assert shown("```py\nif x:\n\treturn  'abcdefgh'\n```", 20) == ["  py", "  if x:", "      return  'abc", "  defgh'"]
    assert shown("```\n```") == ["", ""]
    assert shown("```\nx") == ["", "  x"]


def test_code_is_highlighted_once_it_is_closed() -> None:
    def roles(text: str) -> set[str]:
        return {role for row in rows_of_text(text) for piece in row.pieces for role in piece.roles}

    assert roles("```py\nreturn 1\n") == {"code", "code-label"}
    assert roles("```py\nreturn 1\n```") == {"code", "code-label", "tok-keyword", "tok-number"}
    assert roles("```no-such-language\nreturn 1\n```") == {"code", "code-label"}
    assert roles("- x\n  ```py\n  return 1\n") & {"tok-keyword"} == set()


def test_every_line_of_a_diff_is_coloured() -> None:
    assert [line[0].roles[-1] for line in highlight("diff", "-a\n+b")] == ["tok-deleted", "tok-inserted"]


def test_a_very_large_block_stays_plain() -> None:
    text = "return 1\n" * 10_000
    assert {piece.roles for line in highlight("python", text) for piece in line} == {("code",)}
