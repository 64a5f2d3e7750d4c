"""What the app writes to a terminal: its own sequences and colours that the terminal has, and nothing of a chat's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from app.chat.conversation import new_message, new_session
from app.chat.store import Store
from app.ui.history import InputHistory
from tests.home import qchat_home
from tests.ui.repl.terminal import PASTE, PASTE_END, UP
from tests.ui.terminal.scripted import EVIL
from tests.ui.terminal.window import QUIT, STOP, Window

__all__ = ["qchat_home"]

ENTER = "\r"
# Every sequence that Textual writes: SGR, cursor moves, modes and their queries, the keyboard, the mouse pointer.
OURS = re.compile(rb"\x1b\[(?:[\d;]*m|\d+;\d+H|\??[\d;]*[hl]|\?\d+\$p|[<>]\d*u)|\x1b\]22;[a-z-]*\x07")


def foreign(raw: bytes) -> Sequence[bytes]:
    """Control characters and sequences in what was written that are not the app's own."""
    rest = OURS.sub(b"", raw).replace(b"\r\n", b"")
    c1 = re.findall(rb"\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]", rest)
    return [*re.findall(rb"[\x00-\x1f\x7f].{0,12}", rest), *c1]


def chat_full_of_escapes() -> None:
    """A saved chat that says evil things in every field, and a history of them."""
    question = new_message(None, "user", EVIL)
    reply = new_message(question.id, "assistant", EVIL, thinking=EVIL, model=EVIL, notices=(EVIL,))
    store = Store.open_default(lambda _: None)
    try:
        session = replace(new_session({"system": EVIL, "model": EVIL}), title=EVIL, leaf_id=reply.id)
        store.add([(session, [question, reply])])
    finally:
        store.close()
    InputHistory.default().add(EVIL)


def test_nothing_of_a_chat_reaches_the_terminal_as_a_control_sequence(qchat_home: Path) -> None:
    chat_full_of_escapes()
    with Window(qchat_home, "--continue", env={"COLORTERM": "truecolor"}).ready() as window:
        window.expect(r"\x1b[2J\x1b[1;1H")
        window.type("\x14")  # ctrl+t: thinking
        window.expect("▾ Thought")
        window.type(UP)  # the history
        window.until(lambda: "Ask something" not in window.text)
        window.type("\x15\x1b[3~")
        for key, shown in (("\x1bOQ", "Settings"), ("\x1bOP", "Keys")):  # F2, F1
            window.type(key)
            window.expect(shown)
            window.type(STOP)
            window.until(lambda shown=shown: shown not in window.text)
        window.type(f"{PASTE}pasted {EVIL}{PASTE_END}")
        window.expect("control characters were left out")
        window.expect("▾ Thought")  # no key in the paste was pressed
        window.type(QUIT)
        assert window.end() == 0
        assert foreign(window.raw) == []


def test_nothing_of_a_reply_reaches_the_terminal_as_a_control_sequence(qchat_home: Path) -> None:
    with Window(qchat_home).ready() as window:
        window.send("evil words please")
        window.expect(r"\x1b[2J\x1b[1;1H")
        window.expect("tool call: ")  # near the end of the reply, so in sight however its lines are broken
        window.send("/rename " + "x" * 20)
        window.send("/attach /no/\\x1b/such")
        window.expect("cannot read")
        window.until(lambda: "│ /attach" in window.text)  # what failed is the draft again
        window.type("\x15")  # ctrl+u
        window.until(lambda: "│ /attach" not in window.text)
        window.send("stderr please")
        window.expect("all quiet")
        window.type(QUIT)
        assert window.end() == 0
        assert foreign(window.raw) == []
        assert b"noise" not in window.raw
    log = (qchat_home / "logs" / "stderr.log").read_text("utf-8")
    assert "native noise" in log and "printed noise\n" in log


SGR = re.compile(rb"\x1b\[([\d;]*)m")


def colours(home: Path, env: dict[str, str | None]) -> set[str]:
    """The kinds of colours in all that is drawn: "24 bit", "256", "16"; what has no colour is left out."""
    with Window(home, env=env).ready() as window:
        window.send("think about it")
        window.expect("so it is")
        window.expect("^q Quit")
        window.type(QUIT)
        assert window.end() == 0
    kinds = set()
    for text in SGR.findall(window.raw):
        codes = text.decode()
        if "38;2;" in codes or "48;2;" in codes:
            kinds.add("24 bit")
        elif "38;5;" in codes or "48;5;" in codes:
            kinds.add("256")
        elif any(30 <= int(code) not in (38, 39, 48, 49) for code in codes.split(";") if code):
            kinds.add("16")
    return kinds


@pytest.mark.parametrize(
    ("env", "allowed"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, {"24 bit"}),
        ({"TERM": "xterm-256color"}, {"256"}),
        ({"TERM": "xterm"}, {"16"}),
        ({"TERM": "xterm-256color", "NO_COLOR": "1", "COLORTERM": "truecolor"}, set()),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, {"256"}),
    ],
    ids=["24 bit", "256", "16", "none", "NO_COLOR is empty"],
)
def test_only_colours_that_the_terminal_has(qchat_home: Path, env: dict[str, str | None], allowed: set[str]) -> None:
    assert colours(qchat_home, env) == allowed
