"""Every ending but kill -9 gives the terminal back, keeps what was said, and has an exit code that says what it was."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from app.chat.store import Store
from app.ui.history import InputHistory
from tests.home import qchat_home
from tests.stopwatch import Stopwatch
from tests.ui.repl.terminal import CTRL_C, UP
from tests.ui.terminal.window import QUIT, STOP, Window

__all__ = ["qchat_home"]


def saved_states() -> list[tuple[str, str]]:
    """The content and state of every message of the latest chat."""
    store = Store.open_default(lambda _: None)
    try:
        return [(message.content, message.state) for message in store.messages(store.session("last").id)]
    finally:
        store.close()


def test_ctrl_c_stops_a_reply_hints_and_leaves(qchat_home: Path) -> None:
    with Window(qchat_home).ready() as window:
        window.send("endless story")
        window.expect("one two")
        window.type(CTRL_C)
        window.expect("stopped")
        window.type(CTRL_C)
        window.expect("again to leave")
        window.type(CTRL_C)
        assert window.end() == 0
        assert window.was_given_back() and window.last_words == ""
    assert saved_states() == [("endless story", "stop"), ("one two ", "cancelled")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_ends_the_app_and_keeps_the_reply_and_the_draft(qchat_home: Path, number: signal.Signals) -> None:
    with Window(qchat_home).ready() as window:
        window.send("endless story")
        window.expect("one two")
        window.type("a draft")
        window.expect("a draft")
        window.signal(number)
        assert window.end() == 128 + number
        assert window.was_given_back() and window.last_words == ""
    assert saved_states() == [("endless story", "stop"), ("one two ", "cancelled")]
    assert InputHistory.default().entries() == ["endless story", "a draft"]


@pytest.mark.parametrize("command", ["/stats", "/search"], ids=["in a handler", "in a worker"])
def test_a_bug_ends_the_app_with_one_message_and_the_log_has_the_rest(qchat_home: Path, command: str) -> None:
    with Window(qchat_home).ready() as window:
        window.send("endless story")
        window.expect("one two")
        window.send(command)
        assert window.end() == 1
        assert window.was_given_back()
        log = qchat_home / "logs" / "qchat.log"
        assert window.last_words == f"qchat: unexpected ZeroDivisionError: a bug\n  the details are in {log}\n"
        assert b"Traceback" not in window.raw and "in _bug" in log.read_text("utf-8")
    assert saved_states() == [("endless story", "stop"), ("one two ", "cancelled")]


def test_a_bug_in_a_backend_ends_its_reply_alone(qchat_home: Path) -> None:
    with Window(qchat_home).ready() as window:
        window.send("bug please")
        window.expect("unexpected ZeroDivisionError; see")
        window.send("/new")
        window.send("still there?")
        window.expect("you said: still there?")
        window.type(QUIT)
        assert window.end() == 0
    assert "ZeroDivisionError" in (qchat_home / "logs" / "qchat.log").read_text("utf-8")


def test_a_stopped_process_comes_back_to_a_terminal_that_the_shell_has_set(qchat_home: Path) -> None:
    with Window(qchat_home).ready() as window:
        modes = window.modes
        window.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, window.process.pid, os.WSTOPPED | os.WNOWAIT)
        window.set_modes(window.modes_before)
        window.clear()
        window.signal(signal.SIGCONT)
        window.until(lambda: window.modes == modes)
        window.expect("^q Quit")  # all of it is drawn again
        window.type("back")
        window.expect("back")
        window.type(QUIT)
        assert window.end() == 0
        assert window.was_given_back()


def test_a_window_that_is_closed_leaves_no_process_behind(qchat_home: Path) -> None:
    with Window(qchat_home).ready() as window:
        window.send("endless story")
        window.expect("one two")
        window.hang_up()
        assert window.process.wait(timeout=10) == 129
    assert saved_states() == [("endless story", "stop"), ("one two ", "cancelled")]


def test_a_model_that_is_being_loaded_is_not_waited_for(qchat_home: Path) -> None:
    with Window(qchat_home, "--model", "slow").ready() as window:
        window.send("hello")
        window.expect("loading the model 1 %")
        window.type("draft")
        window.expect("draft")
        watch = Stopwatch(os.getpid(), window.process.pid)
        window.type(STOP)
        window.expect("stopped")
        assert watch.seconds < 0.5
        window.type(STOP)  # twice, and with no reply any more
        window.type(QUIT)
        assert window.end() == 0
        assert window.was_given_back()


def test_bytes_that_are_no_utf_8_are_a_mark_and_not_the_end(qchat_home: Path) -> None:
    with Window(qchat_home).ready() as window:
        window.type("caf\udce9 au lait")
        window.expect("caf\N{REPLACEMENT CHARACTER} au lait")
        window.type(CTRL_C)
        window.expect("again to leave")
        window.type(UP)
        window.type(QUIT)
        assert window.end() == 0
