"""What a picture cannot show: what is scrolled into view, what stays the same after a reload, and how long it takes."""

from __future__ import annotations

import time

import pytest
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.geometry import Size

from app.backends.base import Answer, Notice, Thinking, ToolCall
from app.ui.app import QChatApp
from app.ui.widgets.message import MessageView
from tests.ui.app.harness import HOLD, ScriptedBackend, ask, pieces, run, running, screen, send, shown, until
from tests.ui.app.still import StillClock

LONG = "\n\n".join(f"Paragraph {n} of a reply that fills a window of its own." for n in range(20))


def conversation_of(app: QChatApp) -> VerticalScroll:
    return screen(app).conversation


def test_a_selected_message_is_scrolled_into_view() -> None:
    async def work() -> None:
        async with running(ScriptedBackend([Answer(LONG)]), size=(80, 24)) as (app, pilot):
            for number in range(2):
                await ask(app, pilot, f"question {number}")
            for _ in range(4):
                await pilot.press("alt+up")
                await pilot.pause()
                selected = screen(app).focused
                assert isinstance(selected, MessageView)
                assert selected.region.y in range(conversation_of(app).region.y, conversation_of(app).region.bottom)
            for _ in range(4):
                await pilot.press("alt+down")
            assert screen(app).focused is screen(app).composer

    run(work)


def test_text_is_selected_with_the_mouse_and_copied_with_ctrl_c() -> None:
    async def work() -> None:
        async with running(ScriptedBackend([Answer("one **two** three")]), size=(80, 24)) as (app, pilot):
            await ask(app, pilot, "a  question\twith a tab")
            copied: list[str | None] = []
            screen(app).copy = lambda text, what: copied.append(text)  # type: ignore[method-assign]
            for words in ("one two", "question"):
                row = next(y for y, line in enumerate(shown(app).splitlines()) if words in line)
                column = shown(app).splitlines()[row].index(words)
                await pilot.mouse_down(offset=(column, row))
                await pilot.hover(offset=(column + len(words) - 1, row))
                await pilot.mouse_up(offset=(column + len(words) - 1, row))
                await pilot.press("ctrl+c")
            assert copied == ["one two", "question"]

    run(work)


def test_what_a_person_typed_is_shown_as_it_is() -> None:
    async def work() -> None:
        async with running(ScriptedBackend(), size=(80, 24)) as (app, pilot):
            await ask(app, pilot, "def f():\n    return  1  # *not* [b]markup[/b]\n\tx\n\n   - end")
            text = shown(app)
            for line in ("    return  1  # *not* [b]markup[/b]", "        x", "   - end"):
                assert f"▏ {line}" in text

    run(work)


@pytest.mark.parametrize("question", ["x" * 100_000, "a line of a paste\n" * 10_000], ids=["one line", "10,000 lines"])
def test_a_very_long_question_is_folded_and_opened_at_once(question: str) -> None:
    async def work() -> None:
        async with running(ScriptedBackend(), size=(100, 30)) as (app, pilot):
            await ask(app, pilot, question)
            assert "shows all" in shown(app)
            await pilot.press("alt+up", "alt+up")
            begun = time.process_time()
            await pilot.press("enter")
            await until(pilot, lambda: conversation_of(app).max_scroll_y > 1000)
            opened = time.process_time() - begun
            begun = time.process_time()
            await pilot.press("pagedown")
            await pilot.pause()
            scrolled = time.process_time() - begun
            assert opened < 2.0 and scrolled < 1.0  # seconds of processor time

    run(work)


def test_a_narrow_window_keeps_its_width_when_the_chats_are_shown() -> None:
    async def work() -> None:
        async with running(ScriptedBackend(), size=(70, 24)) as (app, pilot):
            await ask(app, pilot, "a question")
            width = conversation_of(app).size.width
            assert width == 70 and not screen(app).session_list.display
            await pilot.press("ctrl+b")
            assert screen(app).session_list.display and conversation_of(app).size.width == width
            await pilot.press("escape")
            assert not screen(app).session_list.display and screen(app).focused is screen(app).composer

    run(work)


def test_many_sizes_in_a_row_end_in_the_last_one() -> None:
    async def work() -> None:
        backend = ScriptedBackend([*pieces(LONG), HOLD, Answer("the end")])
        async with running(backend) as (app, pilot):
            await send(app, pilot, "q")
            await until(pilot, backend.held.is_set)
            for width in (40, 200, 20, 110, 33, 150, 80) * 5:
                app.post_message(Resize(Size(width, 24), Size(width, 24)))
            await pilot.resize_terminal(80, 24)
            backend.release()
            await until(pilot, lambda: "the end" in shown(app) and not screen(app).replying)
            assert {len(line) for line in shown(app).splitlines()} == {80}
            assert not screen(app).session_list.display

    run(work)


@pytest.mark.parametrize("opened", [False, True], ids=["thinking closed", "thinking open"])
def test_the_picture_at_the_end_of_a_reply_is_that_of_the_chat_opened_again(
    opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U01: a link that is defined at the very end, a fence that never closes, a call, a notice."""
    answer = f"# Title\n\n{LONG[:300]}\n\n| a | b |\n|---|--:|\n| 1 | [x][end] |\n\n1. one\n   - two\n\n[end]: http://e.org\n\n"
    script = [
        *(Thinking(piece) for piece in ("Let me ", "see.\n", "So.")),
        *pieces(answer + "```python\nprint(1)\n", 3),
        ToolCall("look", {"at": [1, 2]}, ""),
        Notice("a notice"),
    ]
    StillClock().set_on(monkeypatch)

    async def work() -> None:
        async with running(ScriptedBackend(script), size=(90, 60)) as (app, pilot):
            if opened:
                await pilot.press("ctrl+t")
            await ask(app, pilot, "q")
            await pilot.pause(0.1)
            at_the_end = cells(app)
            session_id = screen(app).chat.session.id
            await pilot.press("ctrl+n")
            await until(pilot, lambda: not screen(app).chat.conversation)
            await screen(app).open_chat(session_id)
            await until(pilot, lambda: "a notice" in shown(app))
            await pilot.pause(0.1)
            assert cells(app) == at_the_end

    run(work)


def cells(app: QChatApp) -> list[list[tuple[str, str]]]:
    """The picture above the status line: each character with its colours and whether it is bold and so on."""
    return [
        [(character, str(segment.style).split(" meta")[0]) for segment in strip for character in segment.text]
        for strip in app.screen._compositor.render_strips()[:-2]
    ]
