"""The whole app without a terminal, on a backend whose replies a test writes and releases piece by piece."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from app.backends.base import Answer, ChatRequest, Done, Event, Generated, Progress, PromptPiece
from app.backends.usage import Usage
from app.chat.host import BackendHost, Report
from app.settings import Settings, load_settings
from app.ui.app import QChatApp
from app.ui.chat_screen.screen import ChatScreen

USAGE = Usage(prompt_tokens=20, generated_tokens=11, prefill_s=0.1, decode_s=0.5, first_token_s=0.12)
PATIENCE_S = 60.0  # of a test on a busy machine
HOLD = object()  # in a script: go on only when the test says so


class ScriptedBackend:
    """Answers every question with the next script, the last one for ever. `release` lets a held script go on."""

    name = "scripted"
    model = "scripted:1b"

    def __init__(self, *scripts: Sequence[Event | object]) -> None:
        self.facts: dict[str, Any] = {"ctx": 4096, "threads": 2}
        self.requests: list[ChatRequest] = []
        self.cancelled = 0
        self.holds = 0  # how often a script has waited
        self._scripts = list(scripts) or [[Answer("yes")]]
        self._released = asyncio.Event()
        self.held = asyncio.Event()

    async def models(self) -> Sequence[str]:
        return [self.model]

    def release(self) -> None:
        self._released.set()

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        try:
            for number, event in enumerate(script):
                if event is HOLD:
                    self.holds += 1
                    self.held.set()
                    await self._released.wait()
                    self._released.clear()
                    self.held.clear()
                elif isinstance(event, BaseException):
                    raise event
                elif callable(event):
                    event()
                else:
                    yield Generated(number + 1)
                    yield event  # type: ignore[misc]
            yield Done("stop", USAGE)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def prompt(self, request: ChatRequest) -> Sequence[PromptPiece]:
        return [PromptPiece("<|im_start|>", True), PromptPiece(f"user\n{request.messages[-1]['content']}", False)]

    async def close(self) -> None:
        pass


@asynccontextmanager
async def running(
    backend: ScriptedBackend | Callable[[Settings, Report], Any],
    *,
    size: tuple[int, int] = (110, 32),
    session: str | None = None,
    pick_model: bool = False,
) -> AsyncIterator[tuple[QChatApp, Pilot[int]]]:
    """The app with its chats loaded, and a pilot that presses its keys."""

    def open_backend(_settings: Settings, report: Report) -> ScriptedBackend:
        report(Progress("loading the model", 1, 2))
        return backend  # type: ignore[return-value]

    opener = open_backend if isinstance(backend, ScriptedBackend) else backend
    app = QChatApp(load_settings(), session=session, pick_model=pick_model, host=BackendHost(opener))  # type: ignore[arg-type]
    app.animation_level = "none"
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.ready)
        screen(app).composer.cursor_blink = False
        yield app, pilot
        await app.leave()


def screen(app: QChatApp) -> ChatScreen:
    return app.chat_screen


async def until(pilot: Pilot[int], true: Callable[[], Any]) -> None:
    """Wait until `true`; a test that waits in vain fails with what is on the screen."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain; the screen:\n{shown(pilot.app)}")  # type: ignore[arg-type]
        await pilot.pause(0.01)
    await pilot.pause()


async def type_text(pilot: Pilot[int], text: str) -> None:
    """Put text into the composer as a person has by the time of Enter."""
    pilot.app.chat_screen.composer.set_text(text)  # type: ignore[attr-defined]
    await pilot.pause()


async def ask(app: QChatApp, pilot: Pilot[int], text: str) -> None:
    """Send `text` and wait for the whole reply."""
    await send(app, pilot, text)
    await until(pilot, lambda: not screen(app).replying)


async def send(app: QChatApp, pilot: Pilot[int], text: str) -> None:
    """Send `text`; the reply may still be written when this returns."""
    await type_text(pilot, text)
    await pilot.pause(0.02)  # a person's Enter comes later than another key
    await pilot.press("enter")
    await pilot.pause()


def shown(app: QChatApp) -> str:
    """What stands on the screen, as text."""
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(work())  # type: ignore[arg-type]


def pieces(text: str, size: int = 7) -> Iterable[Event]:
    """An answer in pieces."""
    return [Answer(text[at : at + size]) for at in range(0, len(text), size)]
