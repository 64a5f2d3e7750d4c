"""The line interface on a real terminal: editing, pastes, completion, interruption, and how it leaves the terminal."""

from __future__ import annotations

import hashlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.chat.store import Store
from app.ui.repl.prompt import ESCAPE_S
from tests.stopwatch import Stopwatch
from tests.ui.repl.terminal import (
    ALT_ENTER,
    CTRL_C,
    CTRL_D,
    CTRL_G,
    CTRL_J,
    ENTER,
    ESCAPE,
    PASTE,
    PASTE_END,
    UP,
    Terminal,
)

STOPPED = "stopped; what was said is kept"
STOPS_WITHIN_S = 0.5


def repl(*arguments: str, env: dict[str, str] | None = None, columns: int = 80) -> Terminal:
    started = Terminal("tests.ui.repl.scripted", "repl", *arguments, env=env, columns=columns)
    started.prompt()
    return started


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[Terminal]:
    with repl(env={"QCHAT_HOME": str(home)}) as started:
        yield started


@pytest.fixture
def terminal(running: Terminal) -> Terminal:
    """A new chat on a terminal that other tests have used; each leaves it at an empty prompt."""
    running.ask("/new", "a new chat")
    running.clear()
    running.type(ENTER)
    running.prompt()
    return running


@pytest.fixture
def fresh(qchat_home: Path) -> Iterator[Terminal]:
    """A terminal with a home of its own, which the test may end."""
    with repl() as started:
        yield started


def chats(home: Path) -> Store:
    return Store.open(home / "data" / "sessions.db", print)


def test_enter_sends_and_two_keys_begin_a_new_line(terminal: Terminal, home: Path) -> None:
    terminal.type(f"one{CTRL_J}two{ALT_ENTER}")
    terminal.expect("  two")
    terminal.ask("three", "you said: one\ntwo\nthree")
    terminal.ask("hello", "you said: hello")
    store = chats(home)
    assert [m.content for m in store.messages(store.session("last").id)][::2] == ["one\ntwo\nthree", "hello"]


def test_a_paste_is_one_draft_until_enter(terminal: Terminal) -> None:
    """U04: each line was sent as a message of its own, or the first one run as a command."""
    terminal.type(f"{PASTE}/quit\r\nsecond\r/quit\r{PASTE_END}")
    terminal.expect("> /quit\n  second\n  /quit")
    terminal.ask("end", "you said: /quit\nsecond\n/quit\nend")
    for keys in (f"{PASTE}a{PASTE_END}\r/quit\r", "a\r/quit\r"):  # with its own end in it; without brackets
        terminal.type(keys)
        terminal.expect("> a\n  /quit")
        terminal.type("!")
        terminal.expect("!")
        terminal.type(CTRL_C)
        terminal.ask("hello", "you said: hello")


def test_a_long_paste_arrives_whole_and_soon(terminal: Terminal) -> None:
    """U04: 10,000 lines, 700 kB, can be edited within a second (on a quiet machine) and are equal when sent."""
    text = "digest\n" + "\n".join(f"line {number} {'x' * 58}" for number in range(10_000)) + "\nthe end"
    watch = Stopwatch(os.getpid(), terminal.process.pid)
    terminal.type(PASTE + text.replace("\n", "\r") + PASTE_END)
    terminal.expect("the end")
    assert watch.seconds < 5
    terminal.ask("!", hashlib.sha256(f"{text}!".encode()).hexdigest())


def test_what_is_typed_while_a_reply_is_written_waits_for_the_prompt(terminal: Terminal) -> None:
    terminal.type("endless" + ENTER)
    terminal.expect("one two")
    terminal.type(f"{PASTE}a\rb\r{PASTE_END}")
    terminal.type("c")
    terminal.type(CTRL_C)
    terminal.expect(STOPPED)
    terminal.expect("> a\n  b\n  c")
    terminal.type(CTRL_C)


def test_a_reply_is_stopped_at_any_time_and_what_was_said_is_kept(terminal: Terminal, home: Path) -> None:
    """U06: the key was ignored until the reply ended, or it ended the program."""
    for key in (CTRL_C, ESCAPE, CTRL_C * 2):
        for question, shown in (("endless", "one two"), ("prefill", "reading the prompt")):
            terminal.ask("/new", "a new chat")
            stop(terminal, question, shown, key)
    terminal.ask("/new", "a new chat")
    terminal.ask("hello", "you said: hello")
    store = chats(home)
    replies = [m for one in store.sessions()[:7] for m in store.messages(one.session.id) if m.role == "assistant"]
    assert sorted((m.state, m.content) for m in replies) == [
        *[("cancelled", "")] * 3, *[("cancelled", "one two ")] * 3, ("stop", "you said: hello"),
    ]  # fmt: skip


@pytest.mark.usefixtures("qchat_home")
def test_waiting_for_a_model_is_stopped_too_and_leaving_does_not_wait_for_it() -> None:
    with repl("-m", "loading") as terminal:
        for key in (CTRL_C, ESCAPE):
            stop(terminal, "hello", "loading the model", key)
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def stop(terminal: Terminal, question: str, shown: str, key: str) -> None:
    """Ask, wait for what shows that the reply is on its way, press the key, and wait for the prompt."""
    terminal.clear()
    terminal.type(question + ENTER)
    terminal.expect(shown)
    watch = Stopwatch(os.getpid(), terminal.process.pid)
    terminal.type(key)
    terminal.expect(STOPPED)
    assert watch.seconds < STOPS_WITHIN_S + (ESCAPE_S if key == ESCAPE else 0)
    terminal.prompt()


def test_ctrl_c_clears_a_draft_and_twice_leaves_from_an_empty_prompt(fresh: Terminal) -> None:
    fresh.type(f"draft{CTRL_J}more")
    fresh.expect("more")
    fresh.type(CTRL_C)
    fresh.prompt()
    fresh.type(CTRL_C)
    fresh.expect("Ctrl-C again, Ctrl-D or /quit leaves")
    fresh.ask("hello", "you said: hello")
    fresh.type(CTRL_C)
    fresh.expect("you said: hello\n>\nqchat: Ctrl-C again")
    fresh.prompt()
    fresh.type(CTRL_C)
    assert fresh.end() == 0


def test_history_and_completion(terminal: Terminal, home: Path) -> None:
    terminal.ask("hello 🐺", "you said: hello 🐺")
    terminal.type("x" + UP)
    terminal.expect("you said: hello 🐺\n> hello 🐺")
    terminal.type(CTRL_C)
    terminal.type("/op\thello \t")
    terminal.expect("> /open hello 🐺")
    terminal.ask("", "this is hello 🐺")
    terminal.type("/st\t")
    terminal.expect("> /stats")
    terminal.type(CTRL_C)
    with repl(env={"QCHAT_HOME": str(home)}) as later:
        later.type(UP)
        later.expect("> /open hello 🐺")


@pytest.mark.usefixtures("qchat_home")
def test_a_key_opens_the_editor_on_the_draft(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf " and more" >> "$1"\n')
    editor.chmod(0o700)
    with repl(env={"VISUAL": str(editor)}) as terminal:
        terminal.type("draft")
        terminal.expect("> draft")
        terminal.type(CTRL_G)
        terminal.expect("> draft and more")
        terminal.ask("!", "you said: draft and more!")


def test_nothing_that_a_model_says_drives_the_terminal(terminal: Terminal) -> None:
    """U03: sequences of the model cleared screens, wrote clipboards and left the mouse on, again at each reload."""
    terminal.raw = b""
    terminal.ask("evil", " end")
    terminal.type("/rename \x9b a title")
    terminal.expect("a title")
    terminal.ask("", "this is \\x9b a title")
    terminal.ask("/search over", "x08\\u202e end")
    terminal.ask("/open last", "this is \\x9b a title")
    for sequence in (b"\x1b[2J", b"\x1b]52", b"\x07", b"\xc2\x9b", b"\x1b[?1003h", b"\xe2\x80\xae"):
        assert sequence not in terminal.raw
    assert "\\x1b[2J\\x1b]52;c;aGk=\\x07\\x9b?1003h\\rover\\x08\\u202e end" in terminal.text


def test_bytes_that_are_no_text_do_no_harm(terminal: Terminal) -> None:
    """S04: halves of a pair, as some terminals send them, took the program down when the history was written."""
    terminal.type(b"wolf \xed\xa0\xbd\xed\xb0\xba and \xed\xb2\x9d \xff".decode("utf-8", "surrogateescape"))
    terminal.expect("and")
    terminal.ask("", "you said: wolf 🐺 and \ufffd \ufffd")


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1", "TERM": "vt100"}, {"COLORTERM": "truecolor"}])
@pytest.mark.usefixtures("qchat_home")
def test_there_are_no_colours_at_all(variables: dict[str, str]) -> None:
    """L03, U09: colours that a terminal did not know became blinking rubbish; NO_COLOR had no effect."""
    with repl(env=variables, columns=20) as terminal:
        terminal.ask("think", "so it is")
        terminal.type("/s\t")
        terminal.expect("/stats\n> /s")
        terminal.type(CTRL_C)
        terminal.type("/quit" + ENTER)
        assert terminal.end() == 0
        assert set(re.findall(rb"\x1b\[[0-9;]*m", terminal.raw)) <= {b"\x1b[0m"}


@pytest.mark.parametrize(("number", "busy"), [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGHUP, True)])
def test_a_signal_ends_it_with_the_terminal_as_it_was_and_the_reply_saved(
    fresh: Terminal, number: signal.Signals, busy: bool
) -> None:
    """U09: an ending left the terminal without echo."""
    fresh.ask("hello", "you said: hello")
    if busy:
        fresh.type("endless" + ENTER)
        fresh.expect("one two")
    assert fresh.modes != fresh.modes_before
    fresh.signal(number)
    assert fresh.end() == 128 + number
    assert fresh.modes == fresh.modes_before
    assert fresh.raw.count(b"\x1b[?2004h") == fresh.raw.count(b"\x1b[?2004l")
    assert fresh.raw.rfind(b"\x1b[?25l") < fresh.raw.rfind(b"\x1b[?25h")
    store = Store.open_default(print)
    messages = store.messages(store.session("last").id)
    assert [m.state for m in messages if m.role == "assistant"] == ["stop", "cancelled"][: 1 + busy]


def test_an_interrupt_from_outside_is_as_the_key(fresh: Terminal) -> None:
    fresh.type("endless" + ENTER)
    fresh.expect("one two")
    fresh.signal(signal.SIGINT)
    fresh.expect(STOPPED)
    fresh.prompt()
    fresh.type("draft")
    fresh.expect("> draft")
    fresh.signal(signal.SIGINT)
    fresh.prompt()
    fresh.signal(signal.SIGINT)
    fresh.expect("leaves")
    fresh.prompt()
    fresh.signal(signal.SIGINT)
    assert fresh.end() == 0


def test_how_saving_goes_is_told_above_the_draft(qchat_home: Path) -> None:
    in_the_way = qchat_home / "data" / "sessions.db"
    in_the_way.mkdir(parents=True)
    with repl() as terminal:
        terminal.ask("hello", "you said: hello")
        terminal.expect("not saved, and tried again")
        terminal.type("draft")
        terminal.expect("> draft")
        in_the_way.rmdir()
        terminal.expect("everything is saved again\n> draft")


def test_what_cannot_be_saved_is_told_and_kept_elsewhere(qchat_home: Path) -> None:
    (qchat_home / "data" / "sessions.db").mkdir(parents=True)
    with repl() as terminal:
        terminal.ask("hello", "you said: hello")
        terminal.expect("not saved, and tried again")
        terminal.type(CTRL_D)
        terminal.expect("qchat sessions import")
        assert terminal.end() == 0
    kept = list((qchat_home / "data").glob("unsaved-*.json"))
    assert len(kept) == 1 and "you said: hello" in kept[0].read_text()
    assert kept[0].stat().st_mode & 0o777 == 0o600
