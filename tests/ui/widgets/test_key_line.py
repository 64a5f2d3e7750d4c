"""The keys in the last row: a click presses them, the mouse tells what they do, and the wheel brings the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot
from textual.widgets import Input

from app.ui.widgets.key_line import KeyLine


class Keys(App[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "note('f2')", "Second", tooltip="What the second does"),
        Binding("f3", "note('f3')", "Third", tooltip="What the third does"),
        Binding("f4", "note('f4')", "Hidden", show=False),
        Binding("f5", "never", "Not now"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.pressed: list[str] = []

    def compose(self) -> ComposeResult:
        yield Input()
        yield KeyLine()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return None if action == "never" else True

    def bell(self) -> None:
        self.pressed.append("bell")

    def action_note(self, key: str) -> None:
        self.pressed.append(key)


def in_a_window(width: int, work: Callable[[Keys, KeyLine, Pilot[None]], Awaitable[None]]) -> None:
    async def run() -> None:
        app = Keys()
        async with app.run_test(size=(width, 6), tooltips=True) as pilot:
            await pilot.pause()
            await work(app, app.query_one(KeyLine), pilot)

    asyncio.run(run())


def text_of(line: KeyLine) -> str:
    return line.render_line(0).text


def test_the_keys_stand_in_their_order_and_a_click_presses_one() -> None:
    async def work(app: Keys, line: KeyLine, pilot: Pilot[None]) -> None:
        assert text_of(line).split() == ["f2", "Second", "f3", "Third", "f5", "Not", "now"]
        at = text_of(line).index("Third")
        await pilot.click(KeyLine, offset=(at, 0))
        await pilot.click(KeyLine, offset=(79, 0))  # beside the keys
        await pilot.click(KeyLine, offset=(text_of(line).index("Not"), 0))
        assert app.pressed == ["f3", "bell"]

    in_a_window(80, work)


def test_what_the_mouse_is_on_is_told_and_stands_out() -> None:
    async def work(app: Keys, line: KeyLine, pilot: Pilot[None]) -> None:
        before = line.render_line(0)
        await pilot.hover(KeyLine, offset=(text_of(line).index("Second"), 0))
        assert line.tooltip == "What the second does"
        assert line.render_line(0) != before
        await pilot.hover(Input)
        await pilot.pause()
        assert line.tooltip is None and line.render_line(0) == before

    in_a_window(80, work)


def test_in_a_narrow_window_the_wheel_brings_the_other_keys_and_a_click_finds_them() -> None:
    async def work(app: Keys, line: KeyLine, pilot: Pilot[None]) -> None:
        assert "Third" not in text_of(line)
        for _ in range(20):
            await pilot._post_mouse_events([MouseScrollDown], KeyLine)
        assert text_of(line).rstrip().endswith("now")
        for _ in range(20):
            await pilot._post_mouse_events([MouseScrollUp], KeyLine)
        assert text_of(line).split()[0] == "f2"
        await pilot._post_mouse_events([MouseScrollDown], KeyLine)
        await pilot._post_mouse_events([MouseScrollDown], KeyLine)
        await pilot.click(KeyLine, offset=(text_of(line).index("f3"), 0))
        assert app.pressed == ["f3"]

    in_a_window(14, work)
