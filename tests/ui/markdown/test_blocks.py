"""What the parser makes of Markdown: every construct shown, nothing lost, nothing active."""

from __future__ import annotations

import pytest

from app.ui.markdown.blocks import new_parser, parse
from app.ui.markdown.model import Code, Item, Paragraph, Quote, Table
from tests.ui.markdown.texts import shown


def block(text: str):
    return parse(new_parser(), text, {})[0].spaced.block


def test_inline_styles_nest() -> None:
    assert [(span.text, span.roles) for span in block("a **b *c*** ~~d~~ `e`").spans] == [
        ("a ", ()),
        ("b ", ("strong",)),
        ("c", ("strong", "em")),
        (" ", ()),
        ("d", ("strike",)),
        (" ", ()),
        ("e", ("code-inline",)),
    ]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("[text](http://x.org)", "text (http://x.org)"),
        ("<http://x.org>", "http://x.org"),
        ("<me@x.org>", "me@x.org"),
        ("![alt](http://x.org/i.png)", "alt (http://x.org/i.png)"),
        ("[x](javascript:alert)", "[x](javascript:alert)"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("<script>\nx\n</script>", "<script>\nx\n</script>"),
        ("[b]x[/b] [@click=app.quit]y[/]", "[b]x[/b] [@click=app.quit]y[/]"),
        ("$x^2$ and \\(y\\)", "$x^2$ and (y)"),
        ("one\ntwo  \nthree", "one\ntwo\nthree"),
    ],
)
def test_links_images_html_and_markup_are_text(source: str, text: str) -> None:
    assert "".join(span.text for span in block(source).spans) == text


@pytest.mark.parametrize("entity", ["&#13;", "&#12;", "&#x202e;", "&#x2028;", "&NewLine;", "&Tab;", "&#x9b;"])
def test_an_entity_brings_no_control_character_back(entity: str) -> None:  # U03
    for source in (f"a{entity}b", f"[a](<http://x.org/{entity}>)", f"![{entity}](x)", f"```a{entity}\n```"):
        text = "".join(shown(source))
        assert text.isprintable(), (source, text)


def test_control_characters_are_shown_as_escapes_everywhere() -> None:  # U03
    evil = "\x1b]52;c;QUJD\x07\x9b2J\u202e\b\r"
    for source in (
        evil,
        f"# {evil}",
        f"`{evil}`",
        f"```{evil}\n{evil}\n```",
        f"|{evil}|\n|-|\n|{evil}|",
        f"> - {evil}",
    ):
        assert all(row.isprintable() for row in shown(source, 60)), source
    assert shown("a\x1bb") == ["a\\x1bb"]


def test_tasks_numbers_and_bullets() -> None:
    markers = [part.spaced.block.marker for part in parse(new_parser(), "3. a\n4. b\n\n- [ ] c\n- [x] d\n- e\n", {})]
    assert markers == [" 3.", " 4.", "☐", "☑", "•"]


def test_a_list_keeps_the_blank_lines_of_its_author() -> None:
    assert shown("- a\n- b\n\n- c\n  - d\n\n    e\n") == ["• a", "• b", "", "• c", "  • d", "", "    e"]


def test_blocks_of_every_kind() -> None:
    assert block("> a\n> b") == Quote(((Paragraph(block("a\nb").spans), False),))
    assert block("```py title\nx\n\ny\n```") == Code("py", "x\n\ny", True)
    assert block("~~~\nx") == Code("", "x", False)
    assert block("    x\n\n    y") == Code("", "x\n\ny", True)
    table = block("|a|b|\n|:-:|--:|\n|1|\n")
    assert isinstance(table, Table)
    assert table.alignments == ("center", "right")
    assert [["".join(span.text for span in cell) for cell in row] for row in table.rows] == [["1", ""]]


@pytest.mark.parametrize("mark", ["> ", "- ", "1. "])
def test_text_nested_deeper_than_the_parser_goes_is_shown_as_written(mark: str) -> None:
    assert "end" in "".join(shown(mark * 200 + "end"))
    assert "end" in "".join(shown("- item\n  " + mark * 200 + "end"))


@pytest.mark.parametrize("mark", ["[", "![", "*a ", "**a", "<a", "~~a", "[a]("])
def test_a_mark_repeated_for_ever_is_shown_as_written(mark: str) -> None:
    """Parsed as usual, 50,000 of some of these take minutes."""
    text = mark * 50_000
    assert "".join(shown(text, 90)).replace(" ", "") == text.replace(" ", "")


def test_items_hold_blocks() -> None:
    item = block("- a\n  ```py\n  x\n  ```\n  > q\n")
    assert isinstance(item, Item)
    assert [type(child.block) for child in item.children] == [Paragraph, Code, Quote]


def test_line_ends_of_windows_are_line_ends_and_a_lone_carriage_return_is_shown() -> None:
    assert shown("a\r\nb\r\n\r\nc\rd") == ["a", "b", "", "c\\rd"]
