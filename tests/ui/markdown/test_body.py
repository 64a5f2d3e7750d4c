"""The widget in an app: what is painted, selected, copied and repainted."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.theme import BUILTIN_THEMES

from app.ui.markdown import body as body_module
from app.ui.markdown.body import CodeBlock, MarkdownBody
from tests.ui.markdown.texts import random_text


class OneMessage(App[None]):
    CSS = "VerticalScroll { scrollbar-size: 0 0; }"

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield MarkdownBody(self.text)


def run(check, text: str = "", size: tuple[int, int] = (40, 20)) -> None:
    async def session() -> None:
        app = OneMessage(text)
        async with app.run_test(size=size) as pilot:
            await check(pilot, app.query_one(MarkdownBody))

    asyncio.run(session())


def painted(body: MarkdownBody) -> list[list[tuple[str, object]]]:
    """Every row as runs of text and style, without the offsets of selection."""
    rows = []
    for y in range(body.size.height):
        strip = body.render_line(y)
        rows.append([(segment.text, segment.style and segment.style.clear_meta_and_links()) for segment in strip])
    return rows


def screen_text(app: App[None]) -> list[str]:
    return ["".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips()]


def test_text_that_is_appended_is_painted_like_the_same_text_given_at_once() -> None:
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        fresh = MarkdownBody()
        await body.parent.mount(fresh)
        for seed in range(6):
            text = random_text(seed)
            body.set_text("")
            for at in range(0, len(text), 5):
                body.append(text[at : at + 5])
                await pilot.pause()
            fresh.set_text("x")
            fresh.set_text(text)
            await pilot.pause()
            assert painted(body) == painted(fresh), seed
            assert body.source == text

    run(check)


def test_only_what_changed_is_drawn_again_and_the_screen_shows_it() -> None:
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        for piece in ("one", " two\n\n", "th", "ree"):
            body.append(piece)
            await pilot.pause()
        assert screen_text(pilot.app)[:4] == ["one two", "", "three", ""]
        drawn = body.render_line(0)
        body.append(" four")
        await pilot.pause()
        assert screen_text(pilot.app)[2] == "three four"
        assert body.render_line(0) is drawn

    run(check)


def test_a_link_defined_at_the_end_works_once_the_text_is_set() -> None:  # U01
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        text = "see [a]\n\nmore\n\n[a]: http://x.org\n"
        for piece in text.splitlines(keepends=True):
            body.append(piece)
        body.set_text(text)
        await pilot.pause()
        assert screen_text(pilot.app)[0] == "see a (http://x.org)"

    run(check)


def test_a_fence_that_never_closes_is_shown_and_its_code_can_be_copied() -> None:  # U01
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        body.append("```py\nx = 1\n")
        body.append("y = 2")
        await pilot.pause()
        assert screen_text(pilot.app)[:3] == ["  py", "  x = 1", "  y = 2"]
        assert body.code_blocks == [CodeBlock("py", "x = 1\ny = 2")]

    run(check)


def test_code_blocks_in_order_and_in_lists_and_quotes() -> None:
    body = MarkdownBody("```a\n\tone\n```\n\n- x\n  ```b\n  two\n  ```\n\n> ```c\n> three\n")
    assert body.code_blocks == [CodeBlock("a", "\tone"), CodeBlock("b", "two"), CodeBlock("c", "three")]


def test_a_narrower_pane_wraps_anew() -> None:
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        assert body.size.height == 1
        await pilot.resize_terminal(12, 20)
        await pilot.pause()
        assert screen_text(pilot.app)[:3] == ["one two", "three four", ""]
        assert body.size.height == 2

    run(check, "one two three four")


def test_no_control_character_reaches_the_screen() -> None:  # U03
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        for piece in ("a\x1b", "[2J\x1b]52;c;QQ==\x07 ", "`\x9b`\r", "b\x08\u202e&#13;\n"):
            body.append(piece)
        await pilot.pause()
        assert all(row.isprintable() for row in screen_text(pilot.app))
        assert "\\x1b[2J" in screen_text(pilot.app)[0]

    run(check)


def test_markup_and_links_in_a_message_do_nothing() -> None:
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        await pilot.click(MarkdownBody, offset=(3, 0))
        await pilot.click(MarkdownBody, offset=(20, 0))
        assert pilot.app.is_running
        assert all(not segment.style.link and set(segment.style.meta) <= {"offset"} for segment in body.render_line(0))

    run(check, "[@click=app.quit]x[/] [b](http://x.org)")


def test_the_theme_changes_the_colours_of_rows_already_drawn() -> None:
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        looks = []
        for theme in ("textual-dark", "textual-light", "ansi-dark"):
            pilot.app.theme = theme
            await pilot.pause()
            looks.append(painted(body))
        assert [[text for text, _ in row] for row in looks[0]] == [[text for text, _ in row] for row in looks[1]]
        assert looks[0] != looks[1] != looks[2]
        for row in looks[2]:
            for _, style in row:  # the 16 colours of the terminal only
                assert style.color is None or style.color.triplet is None
                assert style.bgcolor is None or style.bgcolor.triplet is None

    run(check, "# a\n\nb `c` [d](http://x)\n\n> e\n\n```py\nreturn 1 # f\n```\n\n|a|\n|-|\n|b|\n\n---\n")


def test_a_theme_with_the_same_background_changes_the_colours_too() -> None:
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        pilot.app.register_theme(replace(BUILTIN_THEMES["textual-dark"], name="red", primary="#ff0000"))
        before = painted(body)
        pilot.app.theme = "red"
        await pilot.pause()
        assert painted(body) != before

    run(check, "# heading")


def test_a_row_takes_on_the_background_of_its_parent() -> None:
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        def backgrounds() -> set[object]:
            rows = pilot.app.screen._compositor.render_strips()
            return {segment.style.bgcolor for segment in rows[0] if segment.text.strip()}

        before = backgrounds()
        body.parent.styles.background = "rgb(1,2,3)"
        await pilot.pause()
        assert before.isdisjoint(backgrounds())
        assert [color.triplet for color in backgrounds()] == [(1, 2, 3)]

    run(check, "one **two**")


@pytest.mark.parametrize(
    ("text", "start", "end", "copied"),
    [
        ("one two three four", (0, 0), (99, 9), "one two three four"),  # wrapped at spaces
        ("abcdefghijklmnopqrst", (0, 0), (99, 9), "abcdefghijklmnopqrst"),  # folded
        ("one\n\ntwo", (0, 0), (99, 9), "one\n\ntwo"),
        ("one two", (2, 0), (5, 0), "e t"),
        ("> one two three", (0, 0), (99, 9), "one two three"),
        ("- one\n  - two three four\n", (0, 0), (99, 9), "• one\n• two three four"),
        ("```py\nif x:\n    y = 123456789\n```", (0, 0), (99, 9), "if x:\n    y = 123456789"),
        ("a\n\n```py\nb\n```\n\n---\nc", (0, 0), (99, 99), "a\n\nb\n\n\nc"),
        ("|a|b|\n|-|-|\n|1|2|\n|3|4|", (0, 0), (99, 9), "a | b\n1 | 2\n3 | 4"),
        ("|a|\n|-|\n|x|\n|x|", (0, 0), (99, 9), "a\nx\nx"),
        ("|a|b|\n|-|-|\n|1|2|", (4, 2), (5, 2), "2"),
        ("|a|b|\n|-|-|\n|1|one two three four five|", (0, 1), (99, 9), "1 | one two three four five"),
    ],
)
def test_a_selection_copies_text_without_borders_indents_and_wrap_breaks(
    text: str, start: tuple[int, int], end: tuple[int, int], copied: str
) -> None:  # U09
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        from textual.selection import Selection  # noqa: PLC0415 - the only use

        assert body.get_selection(Selection(Offset(*start), Offset(*end)))[0] == copied

    run(check, text, size=(16, 20))


def test_the_mouse_selects_what_it_passes_over() -> None:  # U09
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        plain = painted(body)
        await pilot.mouse_down(MarkdownBody, offset=(4, 0))
        await pilot.hover(MarkdownBody, offset=(6, 2))
        await pilot.mouse_up(MarkdownBody, offset=(6, 2))
        await pilot.pause()
        assert pilot.app.screen.get_selected_text() == "two three\n\nfour fi"
        assert painted(body) != plain
        pilot.app.screen.clear_selection()
        await pilot.pause()
        assert painted(body) == plain

    run(check, "one two three\n\nfour five\n")


def test_all_of_a_message_can_be_selected() -> None:
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        body.text_select_all()
        await pilot.pause()
        assert pilot.app.screen.get_selected_text() == "one\n\n• two"

    run(check, "one\n\n- two")


def test_a_border_or_padding_is_painted_by_textual() -> None:
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        body.styles.padding = (0, 1)
        body.styles.border_left = ("outer", "red")
        await pilot.pause()
        assert screen_text(pilot.app)[0] == "▌ one"

    run(check, "one")


def test_a_text_that_takes_long_to_parse_is_collected_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(pilot: Pilot[None], body: MarkdownBody) -> None:
        monkeypatch.setattr(body_module, "_LONG", -1.0)
        monkeypatch.setattr(body_module, "_REST", 1e9)
        body.append("one ")
        body.append("two")
        await pilot.pause()
        assert (screen_text(pilot.app)[0], body.source) == ("one", "one two")
        assert body.code_blocks == []
        body._go_on()
        await pilot.pause()
        assert screen_text(pilot.app)[0] == "one two"

    run(check)
