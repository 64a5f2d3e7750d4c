"""What is painted anew is what Textual's own compositor would paint, and nobody else is asked to paint."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pyte
import pytest
from rich.console import Console
from textual._compositor import Compositor
from textual.app import App, ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static

from app.ui.compositor import SparingCompositor

WIDTH, HEIGHT = 60, 20


class Overlapping(Screen[None]):
    """A column beside scrolled text with wide characters, and a box that lies over both."""

    DEFAULT_CSS = """
    Overlapping { layers: below above; }
    #beside { width: 20; border-right: vkey red; height: 1fr; }
    #text { width: 1fr; }
    #text Static { margin: 0 1 1 2; padding: 0 1; border: round green; }
    #box { layer: above; position: absolute; offset: 11 5; width: 23; height: 7; border: heavy blue; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._compositor = SparingCompositor()

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Static("a column\nof its own", id="beside")
            with VerticalScroll(id="text"):
                for number in range(8):
                    yield Static(f"{number} 漢字の文章 and words that go on for more than a row of it")
        yield Static("over the others", id="box")


def on_the_screen(work: Callable[[Overlapping], Awaitable[None]]) -> None:
    class Host(App[None]):
        def get_default_screen(self) -> Screen[None]:
            return Overlapping()

    async def run() -> None:
        app = Host()
        async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
            screen = app.screen
            assert isinstance(screen, Overlapping)
            screen.query_one("#text").scroll_to(y=3, animate=False)
            await pilot.pause()
            await work(screen)

    asyncio.run(run())


def some_regions(chance: random.Random) -> set[Region]:
    regions = set()
    for _ in range(chance.randint(1, 3)):
        x, y = chance.randrange(WIDTH), chance.randrange(HEIGHT)
        regions.add(Region(x, y, chance.randint(1, WIDTH - x), chance.randint(1, HEIGHT - y)))
    return regions


@pytest.mark.parametrize("seed", range(4))
def test_a_terminal_shows_after_a_change_what_textual_would_show(seed: int) -> None:
    async def work(screen: Overlapping) -> None:
        chance = random.Random(seed)
        console = Console(color_system="truecolor", force_terminal=True, width=WIDTH, height=HEIGHT)
        compositor = screen._compositor
        for _ in range(40):
            regions = some_regions(chance)
            shown = []
            for render in (SparingCompositor.render_partial_update, Compositor.render_partial_update):
                compositor._dirty_regions = set(regions)
                compositor.__class__ = (
                    SparingCompositor if render is SparingCompositor.render_partial_update else Compositor
                )
                terminal = pyte.Screen(WIDTH, HEIGHT)
                terminal.set_mode(pyte.modes.LNM)
                update = render(compositor)  # type: ignore[arg-type]
                assert update is not None
                pyte.Stream(terminal).feed(update.render_segments(console))
                shown.append([dict(terminal.buffer[y]) for y in range(HEIGHT)])
            assert shown[0] == shown[1], regions
            assert any(shown[0])

    on_the_screen(work)


def test_only_what_a_change_touches_is_asked_to_paint() -> None:
    async def work(screen: Overlapping) -> None:
        asked: list[tuple[str | None, Region]] = []

        def counted(widget: Static) -> Callable[[Region], list[Strip]]:
            paint = widget.render_lines

            def render_lines(crop: Region) -> list[Strip]:
                asked.append((widget.id, crop))
                return paint(crop)

            return render_lines

        for widget in screen.query(Static):
            widget.render_lines = counted(widget)  # type: ignore[method-assign]
        compositor = screen._compositor
        compositor._dirty_regions = {Region(12, 6, 3, 2)}  # the box alone, which covers the column there
        compositor.render_partial_update()
        assert asked == [("box", Region(0, 1, 23, 2))]
        compositor._dirty_regions = {Region(0, 6, 5, 1)}  # the column alone, beside the box
        compositor.render_partial_update()
        assert asked[1:] == [("beside", Region(0, 6, 20, 1))]

    on_the_screen(work)
