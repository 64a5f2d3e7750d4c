"""The first picture: made once, in the colours that were asked for, and without what it does not need."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest
from textual.app import App
from textual.color import Color

from app.ui.app import QChatApp
from app.ui.chat_screen.screen import ChatScreen
from app.ui.themes import LIGHT
from tests.ui.app.harness import ScriptedBackend, run, running, screen

NOT_NEEDED = ("sqlite3", "app.hub", "wcwidth", "httpx", "numpy", "tokenizers", "markdown_it", "pygments")


def test_the_first_picture_needs_no_database_no_engine_and_no_markdown() -> None:
    code = f"import app.cli.app_command, app.ui.app, sys; print([n for n in {NOT_NEEDED!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_theme_is_there_from_the_start_and_the_styles_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCHAT_THEME", "light")
    made_anew: list[object] = []
    monkeypatch.setattr(QChatApp, "refresh_css", lambda _app, animate=True: made_anew.append(animate))
    monkeypatch.setattr(App, "update_styles", lambda _app, node, animate=True: made_anew.append(node))

    async def work() -> None:
        async with running(ScriptedBackend()) as (app, _):
            assert made_anew == [screen(app).composer]  # which has the focus from then on
            assert screen(app).composer.styles.background == Color.parse(LIGHT.background or "")
            assert app.screen_stack == [screen(app)]
            assert isinstance(app.screen, ChatScreen) and app.screen.focused is screen(app).composer

    run(work)


def test_garbage_is_collected_again_after_the_first_picture() -> None:
    async def work() -> None:
        async with running(ScriptedBackend()):
            assert gc.isenabled()

    gc.disable()  # as the command does before it imports the app
    try:
        run(work)
    finally:
        gc.enable()
        gc.unfreeze()
