"""What stops a reply, in every stage of it, and what goes on after that."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.backends.base import Answer, ChatRequest, Event, Progress
from app.backends.registry import open_backend
from app.chat.host import BackendHost, Report
from app.chat.request import request_messages
from app.chat.store import Store
from app.engine.cpu.decoder import CpuDecoder
from app.engine.draw import Floats
from app.errors import StoreError
from app.settings import Settings, load_settings
from app.ui.widgets.conversation import ConversationView
from app.ui.widgets.status import StatusLine
from tests.home import home_with_compiled_kernels, home_with_kernels
from tests.stopwatch import Stopwatch
from tests.ui.app.harness import (
    HOLD,
    PATIENCE_S,
    ScriptedBackend,
    ask,
    run,
    running,
    screen,
    send,
    shown,
    type_text,
    until,
)

__all__ = ["home_with_compiled_kernels", "home_with_kernels"]

SOON_S = 0.5
BABBLE = {
    "TEMPERATURE": "100",
    "TOP_K": "0",
    "TOP_P": "1",
    "MIN_P": "0",
    "SEED": "5",
}  # 2,034 tokens, to the end of ctx


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
def test_a_key_ends_the_wait_for_a_model_and_the_next_question_finds_it_loaded(key: str) -> None:
    loaded = threading.Event()
    opened: list[ScriptedBackend] = []

    def open_slowly(_settings: Settings, report: Report) -> ScriptedBackend:
        report(Progress("loading the model", 40, 100))
        loaded.wait(PATIENCE_S)
        opened.append(ScriptedBackend([Answer("ready")]))
        return opened[-1]

    async def work() -> None:
        async with running(open_slowly) as (app, pilot):
            await send(app, pilot, "one")
            await until(pilot, lambda: "loading the model 40 %" in shown(app))
            await type_text(pilot, "a draft")
            watch = Stopwatch()
            await pilot.press(key, "escape")
            await until(pilot, lambda: not screen(app).replying)
            assert watch.seconds < SOON_S
            assert "stopped" in shown(app) and screen(app).composer.text == "a draft"
            loaded.set()
            await ask(app, pilot, "two")
            assert "ready" in shown(app) and len(opened) == 1

    run(work)


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
def test_a_key_ends_the_reading_of_a_long_prompt(key: str) -> None:
    async def work() -> None:
        backend = ScriptedBackend([Progress("reading the prompt", 512, 8192), HOLD], [Answer("done")])
        async with running(backend) as (app, pilot):
            await send(app, pilot, "long")
            await until(pilot, lambda: "reading the prompt 6 %" in shown(app))
            watch = Stopwatch()
            await pilot.press(key)
            await until(pilot, lambda: not screen(app).replying)
            assert watch.seconds < SOON_S and backend.cancelled == 1
            await ask(app, pilot, "next")
            assert "done" in shown(app)

    run(work)


def test_with_a_dialog_open_escape_closes_it_first_and_ctrl_c_stops_the_reply() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Answer("half"), HOLD])
        async with running(backend) as (app, pilot):
            await send(app, pilot, "one")
            await until(pilot, lambda: "half" in shown(app))
            await pilot.press("f1")
            await until(pilot, lambda: "Keys and commands" in shown(app))
            await pilot.press("escape")
            await until(pilot, lambda: "Keys and commands" not in shown(app))
            assert screen(app).replying
            await pilot.press("f1")
            await until(pilot, lambda: "Keys and commands" in shown(app))
            await pilot.press("ctrl+c")
            await until(pilot, lambda: not screen(app).replying)
            assert app.is_running and not app._exit

    run(work)


def test_the_status_says_what_is_done_from_the_key_until_the_next_question_can_be_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        async with running(ScriptedBackend([Answer("yes")])) as (app, pilot):
            seen: list[tuple[bool, bool]] = []

            def note() -> None:
                seen.append((screen(app).replying, screen(app).status.status.activity != ""))

            add, watch_status = ConversationView.add, StatusLine.watch_status
            monkeypatch.setattr(ConversationView, "add", lambda self, message: (note(), add(self, message))[1])
            monkeypatch.setattr(StatusLine, "watch_status", lambda self, new: (note(), watch_status(self, new))[1])
            await ask(app, pilot, "one")
            await until(pilot, lambda: seen[-1] == (False, False))
            assert seen.count((True, True)) >= 4 and set(seen) == {(True, True), (False, False)}

    run(work)


def test_a_chat_is_not_forked_while_a_reply_is_written_in_it() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Answer("half"), HOLD])
        async with running(backend) as (app, pilot):
            await send(app, pilot, "one")
            await until(pilot, lambda: "half" in shown(app))
            chat = screen(app).chat
            await send(app, pilot, "/fork")
            await until(pilot, lambda: "Esc stops it" in shown(app))
            assert screen(app).chat is chat and screen(app).replying

    run(work)


def test_chats_that_cannot_be_looked_at_are_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with running(ScriptedBackend()) as (app, pilot):

            def fail(_store: Store) -> int:
                raise StoreError("another program is using it")

            monkeypatch.setattr(Store, "changes", fail)
            for _ in range(3):
                await screen(app).look_for_changes()
            await until(pilot, lambda: "another program is using it" in shown(app))
            assert len(app._notifications) == 1

    run(work)


def test_after_a_stop_the_engine_answers_as_from_a_cold_start(
    home_with_compiled_kernels: Path, tiny_qwen3_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (BABBLE | {"MODEL": str(tiny_qwen3_path), "THINKING": "off", "THREADS": "2"}).items():
        monkeypatch.setenv(f"QCHAT_{'SAMPLING_' if name in BABBLE else ''}{name}", value)

    forward = CpuDecoder.forward

    def slowly(self: CpuDecoder, tokens: Sequence[int], n_logits: int) -> Floats:
        time.sleep(0.01)  # the model is so small that its reply would be over before a key is pressed
        return forward(self, tokens, n_logits)

    monkeypatch.setattr(CpuDecoder, "forward", slowly)

    async def answer(host: BackendHost, request: ChatRequest) -> Sequence[Event]:
        backend = await host.get(load_settings(), lambda _: None)
        return [event async for event in backend.chat(request) if isinstance(event, Answer)]

    async def work() -> None:
        async with running(open_backend) as (app, pilot):
            await send(app, pilot, "hi")
            await until(pilot, lambda: "writing" in shown(app))
            watch = Stopwatch()
            await pilot.press("escape")
            await until(pilot, lambda: not screen(app).replying)
            assert watch.seconds < SOON_S
            cut = screen(app).chat.conversation.path()[-1]
            assert cut.state == "cancelled" and cut.content
            await send(app, pilot, "/set max_tokens 40")
            await ask(app, pilot, "and now?")
            path = screen(app).chat.conversation.path()
            settings = screen(app).chat.settings
        host = BackendHost(open_backend)
        request = ChatRequest(request_messages("", path[:-1]), settings.sampling, 40, settings.thinking)
        cold = "".join(event.text for event in await answer(host, request) if isinstance(event, Answer))
        await host.close()
        assert path[-1].content == cold and path[-1].state == "length"

    run(work)
