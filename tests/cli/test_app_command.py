"""`qchat` without a command: what reaches the app, and the refusals of a place that cannot show it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from types import ModuleType

import pytest

from app.cli import run

pytestmark = pytest.mark.usefixtures("qchat_home")

Started = list[tuple[object, ...]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Streams:
    """The three streams of the process for as long as the test runs; pytest puts its own there before each phase."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **others: io.StringIO | None) -> None:
        streams = {"stdin": Terminal(), "stdout": Terminal(), "stderr": Terminal()} | others
        for name, stream in streams.items():
            monkeypatch.setattr(sys, name, stream)
        self.out, self.err = streams["stdout"], streams["stderr"]

    def read(self) -> tuple[str, str]:
        assert self.out is not None and self.err is not None
        return self.out.getvalue(), self.err.getvalue()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """An app that only notes what it was started with."""
    calls: Started = []

    def run_app(model: str | None, pick_model: bool, session: str | None, resume_last: bool) -> int:
        calls.append((model, pick_model, session, resume_last))
        return 7

    app = ModuleType("app.ui.app")
    app.run_app = run_app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "app.ui.app", app)
    monkeypatch.setenv("TERM", "xterm-256color")
    return calls


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        ([], (None, False, None, False)),
        (["--model", "qwen3:4b"], ("qwen3:4b", False, None, False)),
        (["-m", "qwen3:4b"], ("qwen3:4b", False, None, False)),
        (["--model"], (None, True, None, False)),
        (["--model", "--continue"], (None, True, None, True)),
        (["--session", "abc"], (None, False, "abc", False)),
        (["--session", "new"], (None, False, None, False)),
        (["--continue"], (None, False, None, True)),
    ],
)
def test_the_options_reach_the_app_and_its_code_is_the_exit_code(
    started: Started, monkeypatch: pytest.MonkeyPatch, arguments: list[str], call: tuple[object, ...]
) -> None:
    Streams(monkeypatch)
    assert run(arguments) == 7
    assert started == [call]


def test_two_chats_at_once_are_refused(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(monkeypatch)
    assert run(["--session", "abc", "--continue"]) == 2
    assert not started
    assert "give one of them" in streams.read()[1]


@pytest.mark.parametrize(
    ("streams", "term"),
    [
        ({"stdin": io.StringIO()}, "xterm"),
        ({"stdin": None}, "xterm"),
        ({"stdout": io.StringIO()}, "xterm"),
        ({"stderr": io.StringIO()}, "xterm"),
        ({}, "dumb"),
        ({}, ""),
        ({}, None),
    ],
)
def test_a_place_that_cannot_show_the_app_is_refused(
    started: Started, monkeypatch: pytest.MonkeyPatch, streams: dict[str, io.StringIO | None], term: str | None
) -> None:
    shown = Streams(monkeypatch, **streams)
    if term is None:
        monkeypatch.delenv("TERM")
    else:
        monkeypatch.setenv("TERM", term)
    assert run([]) == 2
    assert not started
    out, err = shown.read()
    assert "qchat ask" in err and "qchat repl" in err and len(err.splitlines()) == 2
    assert out == "" and "\x1b" not in err


def test_the_refusal_of_a_real_process_is_text_alone_and_imports_no_app() -> None:
    """L01: exit 2, one message, no escape bytes, and nothing of the app is loaded for it."""
    code = "import sys; from app.cli import run; code = run([]); print(*sys.modules); sys.exit(code)"
    environment = os.environ | {"TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, env=environment, check=False
    )
    assert done.returncode == 2
    assert b"qchat repl" in done.stderr and b"\x1b" not in done.stderr + done.stdout
    assert not {b"textual", b"numpy", b"app.ui", b"app.chat"} & set(done.stdout.split())


def test_options_of_the_app_before_a_command_are_not_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["-m", "x"], ["--session", "x"], ["--continue"]):
        assert run([*arguments, "config", "path"]) == 2
        out, err = capsys.readouterr()
        assert out == "" and "write them after the command" in err
    assert run(["-m", "x", "config", "show", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "UsageError"
