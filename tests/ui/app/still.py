"""A clock that moves only when a script says so, and the app held in one state: the same picture on every run.

Everything in a picture that could differ from run to run is time: of day, of thinking, of a reply. The modules that
look at a clock are listed here, once, and given this one.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from app.chat.host import BackendHost, Report
from app.settings import Settings, load_settings
from app.ui.app import QChatApp
from tests.ui.app.harness import ScriptedBackend, ask, screen, send, shown, until

NOON = 1_789_214_460.0  # 2026-09-12 12:01 UTC
CLOCKED = (
    "app.chat.conversation",
    "app.chat.growing_reply",
    "app.chat.store",
    "app.ui.reply_feed",
    "app.ui.screens.search",
    "app.ui.widgets.message",
    "app.ui.widgets.thinking",
)

CALM_PICTURES, CALM_TURNS = 3, 50

Step = Callable[[QChatApp, Pilot[int]], Awaitable[None]]


class StillClock:
    """In place of `time` in the modules of CLOCKED. Time of day is UTC and moves a millisecond when it is looked at,
    so that what is sorted by it keeps its order."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._looks = 0

    def pass_by(self, seconds: float) -> Callable[[], None]:
        """An entry of a script at which `seconds` pass."""

        def move() -> None:
            self._seconds += seconds

        return move

    def monotonic(self) -> float:
        return 1000.0 + self._seconds

    def time(self) -> float:
        self._looks += 1
        return NOON + self._seconds + self._looks / 1000

    def localtime(self, seconds: float | None = None) -> time.struct_time:
        return time.gmtime(self.time() if seconds is None else seconds)

    def set_on(self, patch: pytest.MonkeyPatch) -> None:
        """Put this clock into every module that looks at one."""
        stand_in = SimpleNamespace(
            monotonic=self.monotonic, time=self.time, localtime=self.localtime, strftime=time.strftime
        )
        for module in CLOCKED:
            patch.setattr(importlib.import_module(module), "time", stand_in)


class StillApp(QChatApp):
    """The app on a scripted backend, without animation, and with its chats closed when it is."""

    def __init__(self, backend: ScriptedBackend, *, session: str | None = None, pick_model: bool = False) -> None:
        settings = load_settings()
        backend.model = settings.model

        def open_backend(_settings: Settings, _report: Report) -> ScriptedBackend:
            return backend

        super().__init__(
            settings,
            session=session,
            pick_model=pick_model,
            host=BackendHost(open_backend),  # type: ignore[arg-type]
        )
        self.animation_level = "none"

    async def on_unmount(self) -> None:
        await self.chat_screen.stop_reply()
        await self.saver.close(5.0)


def after(*steps: Step) -> Callable[[Pilot[int]], Awaitable[None]]:
    """What `take_svg_screenshot` runs before it takes its picture: these steps, and no cursor that blinks."""

    async def run_before(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, QChatApp)
        await until(pilot, lambda: app.ready)
        app.chat_screen.composer.cursor_blink = False  # before it was ever off: Textual keeps that row
        for step in steps:
            await step(app, pilot)
            await pilot.pause()
        for each in app.screen_stack:  # the composer below a dialog blinks too
            for field in [*each.query(Input), *each.query(TextArea)]:
                field.cursor_blink = False
        await until_calm(pilot)

    return run_before


async def until_calm(pilot: Pilot[int]) -> None:
    """Wait until nothing that was begun changes the picture any more.

    Each picture comes after all widgets have seen their messages, and after many turns of the loop: on a busy machine
    a pause of any length may be a single one, and what is begun may take several.
    """
    picture, same = None, 0
    while same < CALM_PICTURES:
        await pilot.pause(0.02)
        for _ in range(CALM_TURNS):
            await asyncio.sleep(0)
        before, picture = picture, pilot.app.screen._compositor.render_strips()
        same = same + 1 if picture == before else 0


def asked(*questions: str) -> Step:
    """Ask each and wait for the whole reply."""

    async def step(app: QChatApp, pilot: Pilot[int]) -> None:
        for question in questions:
            await ask(app, pilot, question)

    return step


def held(question: str, backend: ScriptedBackend) -> Step:
    """Ask, and come to the place where the script of the reply is held; what was said may not be drawn yet."""

    async def step(app: QChatApp, pilot: Pilot[int]) -> None:
        await send(app, pilot, question)
        await until(pilot, backend.held.is_set)

    return step


def pressed(*keys: str) -> Step:
    async def step(_app: QChatApp, pilot: Pilot[int]) -> None:
        await pilot.press(*keys)

    return step


def typed(text: str) -> Step:
    async def step(app: QChatApp, pilot: Pilot[int]) -> None:
        screen(app).composer.set_text(text)

    return step


def until_shown(*texts: str) -> Step:
    async def step(app: QChatApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: all(text in shown(app) for text in texts))

    return step


def keys_of(text: str) -> Sequence[str]:
    """The keys that type `text`."""
    return ["space" if character == " " else character for character in text]
