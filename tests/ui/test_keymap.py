"""The `[keys]` table of config.toml: what it changes, what it shows, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual import events

from app.errors import SettingsError
from app.settings import load_settings
from app.ui.actions import ACTIONS
from app.ui.keymap import read_keymap
from tests.home import qchat_home
from tests.ui.app.harness import ScriptedBackend, ask, running, screen, send, shown, type_text, until

__all__ = ["qchat_home"]


@pytest.fixture
def config(qchat_home: Path) -> Callable[[str], None]:
    """Writes the `[keys]` table."""

    def write(keys: str) -> None:
        qchat_home.mkdir(exist_ok=True)
        (qchat_home / "config.toml").write_text(f"[keys]\n{keys}\n", "utf-8")

    return write


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(work())  # type: ignore[arg-type]


def test_without_a_table_every_action_has_the_keys_of_the_registry(qchat_home: Path) -> None:
    assert read_keymap(load_settings()) == {action.id: action.keys for action in ACTIONS}


def test_keys_are_read_with_spaces_and_an_empty_text_takes_them_away(config: Callable[[str], None]) -> None:
    config('new_chat = " f5 , alt+x"\nsearch = ""\ncopy = "ctrl+shift+left"\nmessage_copy = "é"')
    keymap = read_keymap(load_settings())
    assert keymap["new_chat"] == "f5,alt+x" and keymap["search"] == ""
    assert keymap["copy"] == "ctrl+shift+left" and keymap["message_copy"] == "é"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('no_such = "f5"', "keys.no_such: no action has that name"),
        ('new_chat = "crtl+n"', "keys.new_chat: crtl+n is not a key"),
        ('new_chat = "f5,banana"', "keys.new_chat: banana is not a key"),
        ('new_chat = "ctrl+"', "keys.new_chat: ctrl+ is not a key"),
        ('new_chat = "\\u001b[2J"', r"keys.new_chat: \x1b[2J is not a key"),
    ],
)
def test_a_wrong_name_is_refused_with_its_place(
    config: Callable[[str], None], qchat_home: Path, keys: str, said: str
) -> None:
    config(keys)
    with pytest.raises(SettingsError) as refused:
        read_keymap(load_settings())
    assert refused.value.message == f"{qchat_home / 'config.toml'}: {said}" and refused.value.hint


def test_the_app_obeys_and_shows_the_keys_of_the_person(config: Callable[[str], None]) -> None:
    config('new_chat = "f5"\nhelp = "f8"\nsend = "ctrl+d"\nnewline = "enter"\nstop = ""\nfork = "f9"')

    async def work() -> None:
        async with running(ScriptedBackend()) as (app, pilot):
            assert "f5 New chat" in shown(app) and "f8 Help" in shown(app) and "^n" not in shown(app)
            assert "Stop" not in shown(app)  # an action without a key is not in the footer
            await type_text(pilot, "one")
            await pilot.pause(0.02)
            await pilot.press("enter")
            assert screen(app).composer.text == "one\n"
            await pilot.pause(0.02)
            await pilot.press("ctrl+d")
            await until(pilot, lambda: screen(app).chat.conversation and not screen(app).replying)
            assert screen(app).chat.conversation.path()[0].content == "one\n"
            await pilot.press("ctrl+n")
            await pilot.pause()
            assert screen(app).chat.conversation
            first = screen(app).chat
            await pilot.press("f9")  # an action that has no key of its own
            await until(pilot, lambda: screen(app).chat is not first and screen(app).chat.conversation)
            await pilot.press("f5")
            await until(pilot, lambda: not screen(app).chat.conversation)
            await pilot.press("f8")
            await until(pilot, lambda: "Keys and commands" in shown(app))
            help_lines = [line for line in shown(app).splitlines() if "Begin a new chat" in line]
            assert "f5" in help_lines[0] and "ctrl+n" not in help_lines[0]

    run(work)


def test_alt_with_a_letter_is_its_action_also_where_the_key_carries_the_letter(qchat_home: Path) -> None:
    async def work() -> None:
        async with running(ScriptedBackend()) as (app, pilot):
            await ask(app, pilot, "a question")
            app.post_message(events.Key("alt+e", "e"))  # as a terminal without the Kitty protocol sends it
            await until(pilot, lambda: screen(app).composer.text == "a question")

    run(work)


def test_what_is_typed_before_the_sent_text_is_taken_out_stays(qchat_home: Path) -> None:
    async def work() -> None:
        async with running(ScriptedBackend()) as (app, pilot):
            composer = screen(app).composer
            await send(app, pilot, "/rename A title")
            for text in ("/rename Another title", "a question"):
                composer.set_text(text)
                sent = composer.Sent(text)
                composer.insert("next")
                await screen(app).on_composer_sent(sent)
                assert composer.text == "next"
            await until(pilot, lambda: not screen(app).replying)

    run(work)
