"""`qchat repl` as it is run: its options, what it loads, and a whole chat with the tiny trained Qwen3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import run
from tests.ui.repl.terminal import CTRL_C, CTRL_D, ENTER, ROOT, Terminal

LONG = "Tell me a story about a fox in the forest."
BEGINNING = "Once there was"


@pytest.mark.usefixtures("qchat_home")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--temp", "-1"], "--temp"),
        (["--stop", "x"], "No such option"),
        (["--session", "a", "--continue"], "give one of them"),
        (["extra"], "unexpected extra argument"),
    ],
)
def test_wrong_options_are_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["repl", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and said in shown.err


@pytest.mark.usefixtures("qchat_home")
def test_a_chat_that_is_not_there_is_said_and_nothing_begins(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert run(["repl", "--session", "none"]) == 1
    assert "no chat is called" in capsys.readouterr().err
    assert run(["repl", "--continue"]) == 1


def test_help_loads_no_prompt_and_no_chat() -> None:
    code = "import sys; from app.cli import run; run(['repl', '--help']); print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = set(done.stdout.splitlines())
    assert "app.cli.repl" in loaded
    assert not {"prompt_toolkit", "textual", "rich", "app.chat.session", "asyncio", "numpy"} & loaded
    assert "--plain" in done.stdout


@pytest.mark.usefixtures("qchat_home")
def test_the_app_is_never_loaded_and_the_prompt_only_on_a_terminal(tmp_path: Path) -> None:
    listing = tmp_path / "modules"
    (tmp_path / "listed.py").write_text(
        "import atexit, sys\n"
        f"atexit.register(lambda: open({str(listing)!r}, 'w').write(' '.join(sys.modules)))\n"
        "from app.cli import main\nmain()\n"
    )
    piped = [sys.executable, str(tmp_path / "listed.py"), "repl"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(piped, input=b"/sessions\n/quit\n", env=environment, check=True, capture_output=True)
    assert not {"textual", "rich", "prompt_toolkit", "numpy", "httpx"} & set(listing.read_text().split())
    with Terminal("listed", "repl", env={"PYTHONPATH": f"{ROOT}:{tmp_path}"}) as terminal:
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    loaded = set(listing.read_text().split())
    assert "prompt_toolkit" in loaded and not {"textual", "rich", "numpy", "httpx"} & loaded


def test_a_chat_with_a_trained_model(
    home_with_kernels: Path, tiny_qwen3_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ask, stop, regenerate, walk branches, export, leave, go on; the same chat for `qchat sessions`."""
    monkeypatch.chdir(tmp_path)  # what is typed fits into a line, wherever that is
    options = ["-m", str(tiny_qwen3_path), "--temp", "0"]
    with Terminal("app", "repl", *options) as terminal:
        terminal.prompt()
        terminal.ask("Who are you?", "I am Tiny Qwen3")
        assert "thinking…" in terminal.text and "thought for" in terminal.text
        terminal.clear()
        terminal.type(LONG + ENTER)
        terminal.expect("thinking…")
        terminal.type(CTRL_C)
        terminal.expect("stopped; what was said is kept")
        terminal.prompt()
        terminal.ask("/regenerate", "branch 2/2")
        terminal.ask("/previous", "[branch 1/2]")
        assert "[stopped]" in terminal.text
        terminal.ask("/next", "[branch 2/2]")
        terminal.ask("/stats", "tokens/s")
        terminal.ask("/prompt", "⟦<|im_start|>⟧user")
        terminal.ask("/export chat.md", "written to")
        terminal.type("/quit" + ENTER)
        assert terminal.end() == 0
    exported = (tmp_path / "chat.md").read_text()
    assert "I am Tiny Qwen3" in exported and LONG in exported

    with Terminal("app", "repl", "--continue", "--plain") as terminal:
        terminal.expect("this is Who are you?")
        terminal.prompt()
        terminal.ask_line("What is the capital of France?", "Paris")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert b"\x1b" not in terminal.raw
    shown = subprocess.run(
        [sys.executable, "-m", "app", "sessions", "show", "last", "--json"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    document = json.loads(shown.stdout)
    by_id = {message["id"]: message for message in document["messages"]}
    path = [by_id[one] for one in document["path"]]
    assert [m["content"] for m in path][::2] == ["Who are you?", LONG, "What is the capital of France?"]
    assert sorted(m["state"] for m in document["messages"]) == ["cancelled", *["stop"] * 6]
