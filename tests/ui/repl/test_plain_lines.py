"""Bare lines: dumb terminals, screen readers, pipes and files. Nothing that drives a terminal is ever written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.chat.store import Store
from app.ui.repl.typed import as_typed
from tests.ui.repl.terminal import CTRL_C, CTRL_D, ROOT, Terminal

pytestmark = pytest.mark.usefixtures("qchat_home")

SCRIPTED = [sys.executable, "-m", "tests.ui.repl.scripted", "repl"]


def piped(data: bytes, *arguments: str, **environment: str) -> tuple[str, str, int]:
    """stdout, stderr and exit code of a line interface that reads `data` from a pipe."""
    done = subprocess.run(
        [*SCRIPTED, *arguments], input=data, capture_output=True, cwd=ROOT, env=os.environ | environment, check=False
    )
    return done.stdout.decode(), done.stderr.decode(), done.returncode


def dumb(term: str | None = "dumb", arguments: Sequence[str] = ()) -> Terminal:
    return Terminal("tests.ui.repl.scripted", "repl", *arguments, env={"TERM": term})


@pytest.mark.parametrize(
    ("term", "arguments"), [("dumb", ()), (None, ()), ("xterm", ("--plain",))], ids=["dumb", "unset", "asked for"]
)
def test_a_dumb_terminal_gets_no_escape_codes(term: str | None, arguments: Sequence[str]) -> None:
    """U09: escape codes were written to terminals that do not know any."""
    with dumb(term, arguments) as terminal:
        terminal.prompt()
        terminal.ask_line("think", "so it is")
        terminal.ask_line("evil", " end")
        terminal.ask_line("/eixt", "did you mean /exit?")
        terminal.ask_line("/copy", "not copied")
        for question in ("endless", "prefill"):
            terminal.ask_line("/new", "a new chat")
            terminal.type(f"{question}\n")
            terminal.expect("one two" if question == "endless" else "it reads")
            terminal.type(CTRL_C)
            terminal.expect("stopped; what was said is kept")
            terminal.prompt()
        terminal.type("half a line" + CTRL_C)
        terminal.expect("Ctrl-C again, Ctrl-D or /quit leaves")
        terminal.ask_line("/new", "a new chat")
        terminal.ask_line("hello", "you said: hello")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert not {0x1B, 0x07, 0x08} & set(terminal.raw)


def test_each_line_of_a_pipe_is_one_message_or_command() -> None:
    out, err, code = piped(
        b"\xef\xbb\xbfhello\r\n\n/quit now?\ncaf\xe9 \xed\xa0\xbd\xed\xb0\xba\n/sessions\n/quit\nnot read\n"
    )
    assert code == 0
    assert out.splitlines()[:3] == ["you said: hello", "you said: /quit now?", "you said: caf\ufffd 🐺"]
    assert "MESSAGES" in out and "not read" not in out
    assert err == ""


def test_stdout_holds_the_answers_alone_and_no_prompt() -> None:
    """L03: escape codes, carriage returns and prompts landed in files."""
    assert piped(b"think\nhello") == ("so it is\nyou said: hello\n", "thinking…\nthought for 0 s, 340 tokens\n", 0)


def test_quotes_begin_and_end_a_message_of_several_lines() -> None:
    out, _, _ = piped(b'"""\n/quit\n  two\n"""\n"""\nopen to the end')
    assert out == "you said: /quit\n  two\nyou said: open to the end\n"


@pytest.mark.parametrize("redirection", ["<&-", "</dev/null", "<&- >&-", "<&- >&- 2>&-"])
def test_without_input_it_ends_at_once(redirection: str) -> None:
    """L01: a closed or empty standard input hung or failed."""
    command = " ".join([*SCRIPTED, redirection])
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout == b"" and b"Traceback" not in done.stderr


def test_the_last_line_needs_no_end_and_a_silent_pipe_is_waited_for() -> None:
    process = subprocess.Popen(SCRIPTED, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"you said: hello\n"  # before the pipe ends
    out, _ = process.communicate(b"again", timeout=60)
    assert out == b"you said: again\n"


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_output_is_utf8_whatever_the_locale_says(encoding: str) -> None:
    """L07: printing an emoji raised, and the answer was lost."""
    text = "rocket 🚀 arrow → check ✓"
    out, err, code = piped(text.encode() + b"\n/sessions\n", PYTHONIOENCODING=encoding, LC_ALL="C")
    assert (out.splitlines()[0], err, code) == (f"you said: {text}", "", 0)
    assert text in out.splitlines()[2]


def test_a_terminal_that_cannot_show_a_character_gets_a_stand_in() -> None:
    with Terminal("tests.ui.repl.scripted", "repl", env={"TERM": "dumb", "PYTHONIOENCODING": "ascii"}) as terminal:
        terminal.prompt()
        terminal.ask_line("rocket 🚀", "you said: rocket ?")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    store = Store.open_default(print)
    assert store.messages(store.session("last").id)[0].content == "rocket 🚀"


def test_a_closed_pipe_ends_quietly_with_the_reply_saved() -> None:
    process = subprocess.Popen(
        SCRIPTED, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(b"hello\nhello again\n", timeout=60)
    assert (process.returncode, err) == (0, b"")
    store = Store.open_default(print)
    assert store.session("last").title == "hello"


def test_a_signal_ends_a_piped_one_too() -> None:
    process = subprocess.Popen(SCRIPTED, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"endless\n")
    process.stdin.flush()
    assert process.stdout.read(8) == b"one two "
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 128 + signal.SIGTERM
    process.stdin.close()
    store = Store.open_default(print)
    assert store.messages(store.session("last").id)[-1].state == "cancelled"


def test_a_line_that_the_terminal_may_have_cut_is_said() -> None:
    with dumb() as terminal:
        terminal.prompt()
        terminal.ask_line(f"count {'x' * 4088}", "drops what is beyond 4,095 bytes")


def test_how_saving_goes_is_told_at_the_prompt(qchat_home: Path) -> None:
    in_the_way = qchat_home / "data" / "sessions.db"
    in_the_way.mkdir(parents=True)
    with dumb() as terminal:
        terminal.prompt()
        terminal.ask_line("hello", "you said: hello")
        terminal.expect("qchat: not saved, and tried again")
        terminal.clear()
        in_the_way.rmdir()
        terminal.expect("qchat: everything is saved again\n>")


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("caf\u00e9 🐺", "caf\u00e9 🐺"),
        ("\ud83d\udc3a", "🐺"),
        ("\udc9d", "\ufffd"),
        (b"\xed\xa0\xbd\xed\xb0\xba \xff".decode("utf-8", "surrogateescape"), "🐺 \ufffd"),
        (b"\xed\xa0\xbd".decode("utf-8", "surrogateescape"), "\ufffd"),
    ],
)
def test_typed_text_becomes_well_formed(typed: str, text: str) -> None:
    """S04."""
    assert as_typed(typed) == text
