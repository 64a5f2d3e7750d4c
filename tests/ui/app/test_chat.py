"""The app as a person uses it: keys in, the screen and the saved chats out. Only the backend is scripted."""

from __future__ import annotations

import asyncio
import hashlib
import re

import pytest
from rich.cells import cell_len
from textual import events

from app.backends.base import Answer, Notice, Thinking, ToolCall
from app.chat.conversation import Message, new_message
from app.chat.store import Store
from app.errors import BackendError, UsageError
from app.ui.actions import ACTIONS, slash_commands
from app.ui.app import QChatApp
from app.ui.history import InputHistory
from app.ui.widgets.message import MessageView
from app.ui.widgets.thinking import ThinkingPane
from tests.ui.app.harness import HOLD, ScriptedBackend, ask, run, running, screen, send, shown, type_text, until

ESCAPES = "\x1b[2J\x1b]52;c;aGk=\x07[b]bold[/b] [@click=app.quit]x[/] [/ \u202e \x9b31m"


def saved(app: QChatApp) -> list[Message]:
    store = Store.open_default(lambda _: None)
    try:
        return store.messages(screen(app).chat.session.id)
    finally:
        store.close()


def test_a_question_is_answered_shown_and_saved() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Thinking("let me see"), Answer("It is **four**."), Notice("a notice")])
        async with running(backend) as (app, pilot):
            assert "Ask something" in shown(app)
            await ask(app, pilot, "What is 2 + 2?")
            text = shown(app)
            assert "What is 2 + 2?" in text and "It is four." in text and "a notice" in text
            assert "Thought for" in text and "let me see" not in text
            assert "20.0 tokens/s" in text and "context 31 of 4,096" in text
            await app.saver.flush(5)
            assert [m.content for m in saved(app)] == ["What is 2 + 2?", "It is **four**."]
            assert screen(app).composer.text == ""

    run(work)


def test_thinking_opens_and_closes_while_it_comes_and_later() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Thinking("first\n"), HOLD, Thinking("second"), Answer("done")])
        async with running(backend) as (app, pilot):
            await send(app, pilot, "q")
            await until(pilot, lambda: backend.held.is_set() and "Thinking…" in shown(app))
            assert "first" not in shown(app)
            await pilot.press("ctrl+t")
            await until(pilot, lambda: "first" in shown(app))
            backend.release()
            await until(pilot, lambda: not screen(app).replying)
            assert "second" in shown(app) and "Thought for" in shown(app)
            await pilot.press("ctrl+t")
            await until(pilot, lambda: "second" not in shown(app))

    run(work)


def test_escape_stops_the_reply_and_keeps_what_was_said() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Answer("half"), HOLD], [Answer("whole")])
        async with running(backend) as (app, pilot):
            await send(app, pilot, "q")
            await until(pilot, lambda: backend.held.is_set() and "half" in shown(app))
            await type_text(pilot, "a draft")
            await pilot.press("escape")
            await until(pilot, lambda: not screen(app).replying)
            assert "half" in shown(app) and "stopped" in shown(app)
            assert screen(app).composer.text == "a draft"
            assert backend.cancelled == 1
            await ask(app, pilot, "again")
            assert "whole" in shown(app)
            assert [m["content"] for m in backend.requests[1].messages] == ["q", "half", "again"]

    run(work)


def test_a_second_question_waits_for_the_first_reply() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Answer("a"), HOLD])
        async with running(backend) as (app, pilot):
            await send(app, pilot, "one")
            await until(pilot, backend.held.is_set)
            await send(app, pilot, "two")
            assert screen(app).composer.text == "two"
            assert len(backend.requests) == 1

    run(work)


def test_an_error_is_shown_in_the_chat_and_the_question_is_kept() -> None:
    async def work() -> None:
        backend = ScriptedBackend([BackendError("the server is gone", "start it")], [Answer("better")])
        async with running(backend) as (app, pilot):
            await ask(app, pilot, "q")
            assert "the server is gone" in shown(app) and "start it" in shown(app)
            await pilot.press("ctrl+r")
            await until(pilot, lambda: len(backend.requests) == 2 and not screen(app).replying)
            assert "better" in shown(app) and "2/2" in shown(app)

    run(work)


def test_edit_regenerate_and_branches_from_the_keyboard() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Answer("reply one")], [Answer("reply two")], [Answer("reply three")])
        async with running(backend) as (app, pilot):
            await ask(app, pilot, "question one")
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "reply two" in shown(app) and not screen(app).replying)
            await pilot.press("alt+left")
            await until(pilot, lambda: "reply one" in shown(app) and "1/2" in shown(app))
            await pilot.press("alt+e")
            assert screen(app).composer.text == "question one"
            await ask(app, pilot, "question two")
            assert "question two" in shown(app) and shown(app).count("question one") == 1  # the title
            await pilot.press("alt+up", "alt+up", "left")  # the reply, the question, the branch before
            await until(pilot, lambda: shown(app).count("question one") == 2)
            assert len(screen(app).chat.conversation) == 5

    run(work)


def test_leaving_an_edit_with_escape_asks_nothing() -> None:
    async def work() -> None:
        backend = ScriptedBackend()
        async with running(backend) as (app, pilot):
            await ask(app, pilot, "one")
            await pilot.press("alt+e")
            await pilot.press("escape")
            assert screen(app).composer.text == ""
            await ask(app, pilot, "two")
            assert [m.content for m in screen(app).chat.conversation.path()] == ["one", "yes", "two", "yes"]

    run(work)


def test_a_paste_is_a_draft_whatever_is_in_it() -> None:
    async def work() -> None:
        backend = ScriptedBackend()
        async with running(backend) as (app, pilot):
            long = "\n".join(f"line {n} of a file that somebody pasted into the chat" for n in range(10_000)) + "\n"
            app.post_message(events.Paste(long))
            await until(pilot, lambda: screen(app).composer.text == long)
            await pilot.pause(0.02)
            await pilot.press("enter")
            await until(pilot, lambda: backend.requests and not screen(app).replying)
            sent = backend.requests[0].messages[0]["content"]
            assert hashlib.sha256(sent.encode()).digest() == hashlib.sha256(long.encode()).digest()
            assert "more lines" in shown(app) or "more characters" in shown(app)
            app.post_message(events.Paste("/quit\nand more\n"))
            await until(pilot, lambda: screen(app).composer.text.startswith("/quit"))
            app.post_message(events.Paste("\x1b[201~\x07bell\r\nnext"))
            await until(pilot, lambda: screen(app).composer.text.endswith("[201~bell\nnext"))
            assert len(backend.requests) == 1

    run(work)


def test_lines_typed_faster_than_a_person_can_are_one_draft() -> None:
    async def work() -> None:
        backend = ScriptedBackend()
        async with running(backend) as (app, pilot):
            composer = screen(app).composer
            for character in "one\rtwo\rthree\r":
                key = "enter" if character == "\r" else character
                app.post_message(events.Key(key, character))
            await until(pilot, lambda: composer.text == "one\ntwo\nthree\n")
            assert not backend.requests

    run(work)


def test_only_registered_commands_are_commands() -> None:
    async def work() -> None:
        backend = ScriptedBackend()
        async with running(backend) as (app, pilot):
            await send(app, pilot, "/eixt")
            assert screen(app).composer.text == "/eixt" and not backend.requests
            for text in ("/tmp", "/home/u/x.py what is this", "// note", "/no_think hi", " /quit", "/quit please"):
                await ask(app, pilot, text)
                assert backend.requests[-1].messages[-1]["content"] == text
            count = len(backend.requests)
            for text in ("", "   ", "\n"):
                await send(app, pilot, text)
            assert len(backend.requests) == count
            await send(app, pilot, "/rename Another title")
            await until(pilot, lambda: screen(app).chat.session.title == "Another title")

    run(work)


WRONG = {
    "/set top_k many": "top_k cannot be many",
    "/open none": "no chat is called",
    "/attach /nonexistent": "cannot read",
    "/model none": "no model none",
    "/export chat.txt": "cannot tell the format",
    "/think maybe": "thinking cannot be maybe",
}


@pytest.mark.parametrize("command", WRONG)
def test_a_command_whose_argument_is_wrong_is_there_to_be_corrected(command: str) -> None:
    async def work() -> None:
        async with running(ScriptedBackend()) as (app, pilot):
            await send(app, pilot, command)
            await until(pilot, lambda: WRONG[command] in shown(app))
            assert screen(app).composer.text == command
            await send(app, pilot, "/set top_k 7")
            await until(pilot, lambda: screen(app).chat.settings.sampling.top_k == 7)
            assert screen(app).composer.text == ""
            await pilot.press("up")
            assert screen(app).composer.text == "/set top_k 7"
            await pilot.press("up")
            assert screen(app).composer.text == command

    run(work)


def test_what_is_written_while_a_command_fails_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with running(ScriptedBackend()) as (app, pilot):

            async def open_late(_wanted: str) -> None:
                screen(app).composer.set_text("a new thought")
                raise UsageError("no such chat")

            monkeypatch.setattr(app.chats, "open", open_late)
            await send(app, pilot, "/open none")
            await until(pilot, lambda: "no such chat" in shown(app))
            assert screen(app).composer.text == "a new thought"
            assert InputHistory.default().entries() == ["/open none"]

    run(work)


def test_every_action_has_a_method_and_every_slash_command_runs_one() -> None:
    async def work() -> None:
        async with running(ScriptedBackend()) as (app, _):
            methods = set(dir(screen(app)))
            keys_only = {"send", "newline"}  # the composer's own
            for action in ACTIONS:
                assert action.id in keys_only or {f"action_{action.id}", f"command_{action.id}"} & methods, action.id
            for action in slash_commands():
                assert not action.argument or f"command_{action.id}" in methods, action.id

    run(work)


def test_text_of_a_chat_is_never_markup_and_never_reaches_the_terminal_raw() -> None:
    async def work() -> None:
        call = ToolCall(ESCAPES, {ESCAPES: ESCAPES}, ESCAPES)
        backend = ScriptedBackend([Thinking(ESCAPES), Answer(ESCAPES), call, Notice(ESCAPES)])
        async with running(backend, size=(120, 60)) as (app, pilot):
            await ask(app, pilot, ESCAPES)
            screen(app).chat.rename(ESCAPES)
            await screen(app).refresh_chats()
            await pilot.press("ctrl+t")
            await pilot.pause()
            text = shown(app)
            for forbidden in "\x1b\x07\x9b\u202e":
                assert forbidden not in text
            assert text.count("[b]bold[/b]") >= 4 and text.count("[@click=app.quit]") >= 4
            await app.saver.flush(5)
            assert saved(app)[0].content == ESCAPES and saved(app)[1].content == ESCAPES

    run(work)


def test_chats_are_listed_opened_renamed_deleted_and_brought_back() -> None:
    async def work() -> None:
        backend = ScriptedBackend()
        async with running(backend) as (app, pilot):
            await ask(app, pilot, "the first chat")
            await pilot.press("ctrl+n")
            await until(pilot, lambda: not screen(app).chat.conversation)
            await ask(app, pilot, "the second chat")
            await pilot.press("ctrl+b", "down", "enter")
            await until(pilot, lambda: screen(app).chat.session.title == "the first chat")
            await pilot.press("ctrl+b", "r")
            await pilot.pause()
            await pilot.press(*"!", "enter")
            await until(pilot, lambda: screen(app).chat.session.title == "the first chat!")
            await until(pilot, lambda: app.screen is screen(app))
            screen(app).session_list.focus()
            await pilot.press("d")
            await until(pilot, lambda: "the first chat!" not in shown(app))
            screen(app).session_list.focus()
            await pilot.press("u")
            await until(pilot, lambda: "the first chat!" in shown(app))

    run(work)


def test_search_opens_the_message_that_was_found() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Answer("the needle is here")], [Answer("hay")])
        async with running(backend) as (app, pilot):
            await ask(app, pilot, "one")
            await pilot.press("ctrl+n")
            await until(pilot, lambda: not screen(app).chat.conversation)
            await ask(app, pilot, "two")
            await pilot.press("ctrl+s")
            await pilot.pause()
            await pilot.press(*"needle")
            await until(pilot, lambda: "1 found" in shown(app))
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(screen(app).focused, MessageView))
            assert "the needle is here" in shown(app)

    run(work)


def test_settings_of_the_chat_reach_the_next_request() -> None:
    async def work() -> None:
        backend = ScriptedBackend()
        async with running(backend) as (app, pilot):
            await send(app, pilot, "/set top_k 7")
            await send(app, pilot, "/system be kind")
            await send(app, pilot, "/think off")
            await send(app, pilot, "/set top_k many")
            await ask(app, pilot, "q")
            request = backend.requests[0]
            assert request.sampling.top_k == 7 and request.thinking is False
            assert request.messages[0] == {"role": "system", "content": "be kind"}

    run(work)


def test_a_reply_goes_on_being_saved_when_another_chat_is_opened() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Answer("half"), HOLD])
        async with running(backend) as (app, pilot):
            await send(app, pilot, "q")
            await until(pilot, backend.held.is_set)
            first = screen(app).chat
            await pilot.press("ctrl+n")
            await until(pilot, lambda: screen(app).chat is not first)
            assert first.conversation.path()[-1].state == "cancelled"
            assert not screen(app).replying and not screen(app).conversation.views

    run(work)


def test_a_long_chat_mounts_a_window_and_both_ends_are_reached() -> None:
    async def work() -> None:
        backend = ScriptedBackend()
        async with running(backend) as (app, pilot):
            chat = screen(app).chat
            for number in range(40):
                question = new_message(chat.conversation.leaf_id, "user", f"question {number}.")
                reply = new_message(question.id, "assistant", "yes")
                chat.conversation.put(question)
                chat.conversation.put(reply)
                chat.conversation.leaf_id = reply.id
            await screen(app).show_chat(chat)
            await until(pilot, lambda: "question 39." in shown(app))
            assert len(screen(app).conversation.views) <= 30
            await pilot.press("ctrl+home")
            await until(pilot, lambda: "question 0." in shown(app))
            assert len(screen(app).conversation.views) <= 30
            seen: set[str] = set()
            while "question 39." not in seen:
                seen.update(re.findall(r"question \d+\.", shown(app)))
                await pilot.press("pagedown")
                await pilot.pause(0.02)
            assert len(seen) == 40  # a page down leaves none out
            await pilot.press("ctrl+home")
            await until(pilot, lambda: "question 0." in shown(app))
            await pilot.press("ctrl+end")
            await until(pilot, lambda: "question 39." in shown(app))

    run(work)


def test_a_reply_whose_view_was_out_of_the_window_is_whole_when_it_is_looked_at_again() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Answer("alpha"), HOLD, Answer(" beta"), HOLD])
        async with running(backend) as (app, pilot):
            chat = screen(app).chat
            for number in range(40):
                chat.conversation.put(new_message(chat.conversation.leaf_id, "user", f"line {number}"))
                chat.conversation.leaf_id = chat.conversation.messages()[-1].id
            await screen(app).show_chat(chat)
            await send(app, pilot, "q")
            await until(pilot, lambda: backend.held.is_set() and "alpha" in shown(app))
            await pilot.press("ctrl+home")
            await until(pilot, lambda: "line 0" in shown(app))
            backend.release()
            await until(pilot, lambda: backend.holds == 2)
            await until(pilot, lambda: " beta" in screen(app).conversation.path[-1].content)
            await pilot.press("ctrl+end")
            await until(pilot, lambda: "alpha beta" in shown(app))
            assert screen(app).replying

    run(work)


def test_the_up_key_brings_back_what_was_sent() -> None:
    async def work() -> None:
        async with running(ScriptedBackend()) as (app, pilot):
            await ask(app, pilot, "first thing")
            await ask(app, pilot, "second thing")
            await type_text(pilot, "draft")
            for key, text in (
                ("up", "second thing"),
                ("up", "first thing"),
                ("down", "second thing"),
                ("down", "draft"),
            ):
                await pilot.press(key)
                assert screen(app).composer.text == text

    run(work)


@pytest.mark.parametrize(
    ("text", "columns", "left"),
    [
        ("かなカ", 6, "かな"),
        ("x👨\u200d👩\u200d👧", 3, "x"),
        ("x🇨🇭", 3, "x"),
        ("xe\u0301", 2, "x"),
        ("⚠\ufe0f", 2, ""),
    ],
    ids=["kana", "family", "flag", "accent", "warning sign"],
)
def test_one_visible_character_is_one_step_of_the_cursor_and_one_backspace(text: str, columns: int, left: str) -> None:
    async def work() -> None:
        async with running(ScriptedBackend()) as (app, pilot):
            composer = screen(app).composer
            start = app.cursor_position
            await type_text(pilot, text)
            assert app.cursor_position.x - start.x == columns  # where an input method opens its window
            assert {cell_len(line) for line in shown(app).splitlines()} == {app.size.width}  # borders stay straight
            await pilot.press("left", "right")
            assert composer.cursor_location == (0, len(text))
            await pilot.press("backspace")
            assert composer.text == left
            await type_text(pilot, text[len(left) :] + "y")
            await pilot.press("home", "delete")
            assert composer.text == "y"

    run(work)


def test_ctrl_c_twice_leaves_and_once_only_hints() -> None:
    async def work() -> None:
        async with running(ScriptedBackend()) as (app, pilot):
            await pilot.press("ctrl+c")
            await until(pilot, lambda: "again to leave" in shown(app))
            assert app.is_running and not app._exit
            await pilot.press("ctrl+c")
            await until(pilot, lambda: app._exit)

    run(work)


def test_a_live_thinking_pane_is_not_laid_out_while_it_is_closed() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Thinking("x" * 100_000), HOLD])
        async with running(backend) as (app, pilot):
            await send(app, pilot, "q")
            await until(pilot, lambda: backend.held.is_set() and screen(app).query(ThinkingPane))
            assert not screen(app).query("#thinking-text")
            await asyncio.sleep(0)

    run(work)
