"""The widget that shows what a person typed: its rows, folding, copying, and what a long text costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from app.ui.widgets.typed_text import FOLDED_LINES, TypedText

LONG = "\n".join(f"line {number} of a file that somebody pasted" for number in range(10_000))


class OneText(App[None]):
    CSS = "VerticalScroll { scrollbar-size: 0 0; }"

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield TypedText(self.text)


def run(text: str, check: Callable[[Pilot[None], TypedText], Awaitable[None]], width: int = 20) -> None:
    async def session() -> None:
        app = OneText(text)
        async with app.run_test(size=(width, 40)) as pilot:
            await pilot.pause()
            await check(pilot, app.query_one(TypedText))

    asyncio.run(session())


def rows(typed: TypedText) -> list[str]:
    return [typed.render_line(y).text.rstrip() for y in range(typed.size.height)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two", ["one two"]),
        ("[b]no markup[/b]", ["[b]no markup[/b]"]),
        ("**no** `markup`\n# at all", ["**no** `markup`", "# at all"]),
        ("a\n\n  b\n", ["a", "", "  b", ""]),
        ("several words that are wrapped", ["several words that", "are wrapped"]),
        ("\tx", ["        x"]),
        ("a\x1b[2Jb\u202e", ["a\\x1b[2Jb\\u202e"]),
        ("日本語" * 4, ["日本語日本語日本語日", "本語"]),
        ("", [""]),
    ],
)
def test_text_is_shown_as_it_was_typed(text: str, expected: list[str]) -> None:
    async def check(_: Pilot[None], typed: TypedText) -> None:
        assert rows(typed) == expected

    run(text, check)


def test_a_long_text_is_folded_until_it_is_asked_for() -> None:
    async def check(pilot: Pilot[None], typed: TypedText) -> None:
        assert rows(typed)[FOLDED_LINES:] == ["… 9,976 more lines; Enter on the message shows all"]
        typed.toggle()
        await pilot.pause()
        assert len(rows(typed)) == 10_000 and rows(typed)[-1].startswith("line 9999")
        typed.toggle()
        await pilot.pause()
        assert len(rows(typed)) == FOLDED_LINES + 1

    run(LONG, check, width=80)


def test_one_very_long_line_is_folded_too() -> None:
    async def check(_: Pilot[None], typed: TypedText) -> None:
        assert rows(typed)[-1] == "… 16,000 more characters; Enter on the message shows all"

    run("word " * 4000, check, width=80)


def test_ten_thousand_lines_unfold_at_once() -> None:
    """Measured in processor time; drawn as a whole, as text widgets are, it takes more than a second."""

    async def check(pilot: Pilot[None], typed: TypedText) -> None:
        costs = []
        for _ in range(3):
            start = time.process_time()
            typed.toggle()
            await pilot.pause()
            costs.append(time.process_time() - start)
            typed.toggle()
            await pilot.pause()
        assert min(costs) < 0.2

    run(LONG, check, width=80)


def test_a_selection_copies_the_text_without_the_breaks_of_wrapping() -> None:
    async def check(pilot: Pilot[None], typed: TypedText) -> None:
        selection = Selection(Offset(8, 0), Offset(5, 2))
        assert typed.get_selection(selection) == ("words that are wrapped\nand m", "\n")
        pilot.app.screen.selections = {typed: selection}
        await pilot.pause()
        looks = [[(s.text, s.style and s.style.bgcolor) for s in typed.render_line(y)] for y in range(3)]
        plain = typed.visual_style.rich_style.bgcolor
        assert [[text for text, background in row if background != plain] for row in looks] == [
            ["words that"],
            ["are wrapped"],
            ["and m"],
        ]

    run("several words that are wrapped\nand more", check)


def test_the_note_of_a_folded_text_is_not_copied() -> None:
    async def check(_: Pilot[None], typed: TypedText) -> None:
        copied = typed.get_selection(Selection(None, None))
        assert copied and copied[0].endswith(f"line {FOLDED_LINES - 1} of a file that somebody pasted")

    run(LONG, check, width=80)
