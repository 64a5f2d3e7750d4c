"""The model picker in an app of its own, and what tests ask it: no engine, no network, one fixed amount of memory."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from app.hub.library import Library
from app.settings import load_settings, paths
from app.ui.screens.picker.screen import PickerScreen
from app.ui.themes import DARK, LIGHT, no_color_wanted
from tests.gguf_files import write_model

FREE = 12_400_000_000  # bytes
NOT_YET = "not dismissed yet"

P = ParamSpec("P")


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """An async test as one that pytest runs."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))  # type: ignore[arg-type]

    return run


class PickerApp(App[None]):
    """Opens the picker at once, looking as in the app, and keeps what it was dismissed with."""

    def __init__(self, *, in_use: str = "", held: int = 0, theme: str = DARK.name) -> None:
        super().__init__(ansi_color=True if no_color_wanted() else None)
        self.animation_level = "none"
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = theme
        self.chosen: str | None = NOT_YET
        self.picker = PickerScreen(Library(paths().models_dir), load_settings(), in_use=in_use, held=held)

    def on_mount(self) -> None:
        self.push_screen(self.picker, self._keep)

    def _keep(self, chosen: str | None) -> None:
        self.chosen = chosen

    @property
    def rows(self) -> list[str]:
        """The rows of the list as text, headings and all, without the lines between sections."""
        options = self.picker.query_one(OptionList).options
        return [str(option.prompt) for option in options if str(option.prompt)]

    @property
    def cursor(self) -> str:
        """The name of the model at the cursor."""
        option = self.picker.query_one(OptionList).highlighted_option
        return "" if option is None else str(option.prompt).removeprefix("›").split()[0]

    @property
    def shown(self) -> str:
        """The whole screen as text."""
        strips = self.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def until(pilot: Pilot[None], true: Callable[[], Any]) -> None:
    """Wait until `true`; a test that waits in vain fails by its time limit."""
    while not true():
        await pilot.pause(0.01)
    await pilot.pause()


async def described(pilot: Pilot[None]) -> None:
    """Wait until every file has been read and its row written."""
    await until(pilot, lambda: "reading ..." not in "".join(pilot.app.rows))  # type: ignore[attr-defined]
    pilot.app.picker.query_one(Input).cursor_blink = False  # type: ignore[attr-defined]


@asynccontextmanager
async def open_picker(
    *, in_use: str = "", held: int = 0, size: tuple[int, int] = (100, 30)
) -> AsyncIterator[tuple[PickerApp, Pilot[None]]]:
    """The picker with all its rows written, and a pilot that presses its keys."""
    app = PickerApp(in_use=in_use, held=held)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.rows)
        await described(pilot)
        yield app, pilot


@pytest.fixture
def library(qchat_home: object, monkeypatch: pytest.MonkeyPatch) -> Library:
    """The models folder that the picker shows."""
    monkeypatch.setattr("app.ui.screens.picker.view.free_memory", lambda: FREE)
    monkeypatch.setattr("app.ui.screens.picker.shelf.backend_names", lambda: ["local"])
    library = Library(paths().models_dir)
    library.prepare()
    return library


@pytest.fixture
def two_models(library: Library) -> Library:
    for name in ("apple", "pear"):
        write_model(library.models_dir / f"{name}.gguf", context_length=512, metadata={"general.name": name})
    return library
