"""Completion: the words of a line, what is offered where, the protocol of each shell, and a real bash."""

from __future__ import annotations

import os
import pty
import resource
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.chat.conversation import Session
from app.chat.store import Store
from app.cli import COMMANDS, complete, run
from app.cli.completion import ASKED, BREAKS, LINE, read_line
from app.hub.catalogue import load_catalogue
from app.settings import paths

pytestmark = pytest.mark.usefixtures("qchat_home")

BASH_BREAKS = " \t\n\"'@><=;|&(:"
Ask = Callable[..., list[list[str]]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """What the script of `shell` is told for the line that was typed: [kind, value, help] for each candidate."""

    def ask(line: str, shell: str = "zsh") -> list[list[str]]:
        monkeypatch.setenv(LINE, line)
        if shell == "bash":
            monkeypatch.setenv(BREAKS, BASH_BREAKS)
        assert complete(f"{shell}_complete") == 0
        out, err = capsys.readouterr()
        assert err == "" and "\x1b" not in out
        return [answer.split("\t") for answer in out.splitlines()]

    return ask


@pytest.fixture
def models() -> Path:
    folder = paths().models_dir
    folder.mkdir(parents=True)
    for name in ("tiny.gguf", "with space's.gguf", "a:b:c.gguf", "bad\x1b[2J.gguf", "tab\t.gguf"):
        (folder / name).write_bytes(b"no header that could be read")
    return folder


def put_chats(*chats: tuple[str, str]) -> None:
    """The last is the latest."""
    store = Store.open_default(pytest.fail)
    for age, (chat_id, title) in enumerate(chats):
        store.put_session(Session(chat_id, title, updated=float(age)))
    store.close()


def values(answers: list[list[str]]) -> list[str]:
    assert all(answer[0] == "plain" for answer in answers)
    return [answer[1] for answer in answers]


@pytest.mark.parametrize(
    ("line", "words", "quote", "replaced_from"),
    [
        ("", ("",), "", 0),
        ("qchat", ("qchat",), "", 0),
        ("qchat ", ("qchat", ""), "", 0),
        ("qchat  ask\t-m a:b", ("qchat", "ask", "-m", "a:b"), "", 2),
        ("x a\\:b", ("x", "a:b"), "", 0),
        ("x 'a b' \"c d\" e\\ f ", ("x", "a b", "c d", "e f", ""), "", 0),
        ("x 'a:b\\", ("x", "a:b\\"), "'", 0),
        ('x "a\\"b\\c', ("x", 'a"b\\c'), '"', 0),
        ("x p'q r", ("x", "pq r"), "'", 1),
        ("x 'ab'c", ("x", "abc"), "", 2),
        ("x ''", ("x", ""), "", 0),
        ("x '' y", ("x", "", "y"), "", 0),
        ("x --a=b", ("x", "--a=b"), "", 4),
        ("x a\\", ("x", "a"), "", 0),
    ],
)
def test_a_line_is_read_as_the_shell_reads_it(
    line: str, words: tuple[str, ...], quote: str, replaced_from: int
) -> None:
    typed = read_line(line, BASH_BREAKS)
    assert (typed.words, typed.quote, typed.replaced_from) == (words, quote, replaced_from)


def test_commands_are_offered_without_importing_any(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"{name} was imported"))
    assert [(name, text) for _, name, text in ask("qchat ")] == [(name, COMMANDS[name].help) for name in COMMANDS]
    assert values(ask("qchat mo")) == ["models"]
    assert {"--model", "--session", "--continue", "--version"} <= set(values(ask("qchat --")))


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("qchat models sh", ["show"]),
        ("qchat ask --kv ", ["f16", "f32", "q8_0"]),
        ("qchat ask hi --device c", ["cpu", "cuda"]),
        ("qchat ask --kv=q", ["--kv=q8_0"]),
        ("qchat ask --lm-head ", ["q4_0", "model"]),
        ("qchat ask --backend lo", ["local"]),
        ("qchat ask --sho", ["--show-thinking"]),
        ("qchat ask --session n", ["new"]),
        ("qchat completion ", ["bash", "zsh", "fish"]),
        ("qchat ask -- --k", []),
        ("qchat ask --system ", []),
    ],
)
def test_what_can_be_listed_is_offered(ask: Ask, line: str, offered: list[str]) -> None:
    assert values(ask(line)) == offered


def test_servers_are_offered_by_name_and_nobody_is_asked(ask: Ask, qchat_home: Path) -> None:
    qchat_home.mkdir(exist_ok=True)
    (qchat_home / "config.toml").write_text(
        '[servers.work]\nurl = "h:1/v1"\nmodel = "big"\n[servers.wide]\nurl = "h:2"\n'
    )
    assert values(ask("qchat ask -m wo")) == ["work/big"]
    assert [each[1:] for each in ask("qchat ask -m wi")] == [["wide/", "at h:2"]]
    assert values(ask("qchat ask --backend w")) == ["work", "wide"]
    assert values(ask("qchat backends w")) == ["work", "wide"]
    assert values(ask("qchat backends list w")) == values(ask("qchat backends login w")) == ["work", "wide"]
    assert set(values(ask("qchat backends l"))) == {"list", "login", "logout", "local"}
    (qchat_home / "config.toml").write_text("[servers.work]\nurll = 1\n")
    assert values(ask("qchat ask --backend w")) == []  # the command itself will complain


def test_models_are_those_here_then_the_catalogue(ask: Ask, models: Path) -> None:
    """Neither a name with control characters nor a broken file may spoil the list: the headers are not read."""
    here = ["a:b:c", "tiny", "with space's"]
    for line in ("qchat ask -m ", "qchat ask --model ", "qchat --model ", "qchat prompt -m "):
        assert values(ask(line)) == here + list(load_catalogue())
    for line in ("qchat models show ", "qchat models remove ", "qchat bench "):
        assert values(ask(line)) == here
    assert values(ask("qchat models pull ")) == list(load_catalogue())
    helps = {value: text for _, value, text in ask("qchat ask -m ")}
    assert (helps["tiny"], helps["smollm2:135m"]) == ("on this disk, 28 B", "to be fetched, 98.0 MB")
    assert values(ask("qchat ask --model=ti")) == ["--model=tiny"]


def test_a_model_here_is_not_offered_twice(ask: Ask, models: Path) -> None:
    name, entry = next(iter(load_catalogue().items()))
    (models / entry.file_name).touch()
    assert values(ask(f"qchat ask -m {name}")) == [name]
    assert name not in values(ask("qchat models pull "))


def test_where_no_name_fits_the_shell_offers_files(ask: Ask, models: Path) -> None:
    for line in ("qchat ask -m ./", "qchat models show /no", "qchat models pull ~/", "qchat prompt ./"):
        assert [answer[0] for answer in ask(line)] == ["file"]


@pytest.mark.parametrize(
    "line", ["qchat ask --session ", "qchat --session ", "qchat sessions show ", "qchat sessions delete x "]
)
def test_chats_are_offered_by_id_with_their_title_the_latest_first(ask: Ask, line: str) -> None:
    put_chats(("aa11", "Rivers: of Europe"), ("ab22", "evil\x1b[2J\ttab\nline 狼"), ("cc33", ""))
    offered = [(value, text) for _, value, text in ask(line) if value != "new"]
    assert offered == [("cc33", ""), ("ab22", "evil\\x1b[2J\\ttab\\nline 狼"), ("aa11", "Rivers: of Europe")]
    assert values(ask(line + "a")) == ["ab22", "aa11"]


def test_deleted_chats_are_not_offered_and_a_key_makes_no_file(ask: Ask, qchat_home: Path) -> None:
    assert ask("qchat sessions show ") == []
    assert not qchat_home.exists()
    paths().data_dir.mkdir(parents=True)
    assert ask("qchat sessions show ") == []
    assert not list(paths().data_dir.iterdir())
    put_chats(("aa11", "one"), ("bb22", "two"))
    store = Store.open_default(pytest.fail)
    store.delete("aa11")
    store.close()
    assert values(ask("qchat sessions show ")) == ["bb22"]
    database = paths().data_dir / "sessions.db"
    database.write_bytes(b"damaged" * 1000)
    assert ask("qchat sessions show ") == []
    assert database.read_bytes() == b"damaged" * 1000


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("qchat ask -m smollm2:1", "135m"),
        ("qchat ask -m smollm2", "smollm2:135m"),
        ("qchat ask -m 'smollm2:1", "smollm2:135m"),
        ("qchat ask -m smollm2\\:1", "smollm2:135m"),
        ("qchat ask -m a:b:", "c"),
        ("qchat ask --model=smollm2:1", "135m"),
        ("qchat ask --kv=q", "q8_0"),
        ("qchat ask -m with", "with\\ space\\'s"),
        ('qchat ask -m "with', "with space's"),
        ("qchat ask -m 'with", "with space'\\''s"),
    ],
)
def test_bash_gets_what_replaces_the_rest_of_the_word(ask: Ask, models: Path, line: str, offered: str) -> None:
    assert ask(line, "bash") == [["plain", offered, ""]]


def test_fish_gets_value_and_help(ask: Ask) -> None:
    put_chats(("aa11", "Rivers, of: Europe"))
    assert ask("qchat sessions show ", "fish") == [["plain", "aa11", "Rivers, of: Europe"]]


def test_a_failure_while_somebody_types_is_only_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ValueError("nobody expected this")

    monkeypatch.setattr("app.hub.catalogue.load_catalogue", fail)
    monkeypatch.setenv(LINE, "qchat ask -m ")
    assert complete("bash_complete") == 1
    assert capsys.readouterr() == ("", "")
    assert "nobody expected this" in (paths().log_dir / "qchat.log").read_text(encoding="utf-8")
    assert complete("tcsh_complete") == 1


def test_offering_models_is_quick_and_imports_nothing_heavy(models: Path) -> None:
    """Under 0.2 s of processor time; `test_help_is_instant` measures in the same way."""
    environment = os.environ | {ASKED: "zsh_complete", LINE: "qchat ask -m "}

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-m", "app"], check=True, capture_output=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert b"smollm2:135m" in done.stdout
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(5)) < 0.2
    code = "import sys; from app.cli import complete; complete('zsh_complete'); print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert not set(done.stdout.splitlines()) & {
        "numpy",
        "httpx",
        "asyncio",
        "app.engine.gguf",
        "app.backends",
        "app.chat",
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_for_its_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{ASKED}={shell}_complete" in script and LINE in script and "%(" not in script


FAKE = """#!/bin/sh
if [ -n "$_QCHAT_COMPLETE" ] || [ "$1" = completion ]; then exec "$PYTHON" -m app "$@"; fi
for argument; do printf '[%s]' "$argument"; done
echo '<END>'
"""


def test_a_real_bash_completes_names_with_colons_and_quotes(models: Path, tmp_path: Path) -> None:
    """Every line is typed with its Tab and run; `qchat` shows the arguments that it got."""
    (tmp_path / "qchat").write_text(FAKE)
    (tmp_path / "qchat").chmod(0o700)
    put_chats(("aa11", "one"), ("bb22", "two"))
    root = Path(__file__).parents[2]
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "PYTHONPATH": str(root),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }
    lines = {
        "qchat ask -m smollm2:1\t": "[ask][-m][smollm2:135m]",
        'qchat ask -m "smollm2:1\t': "[ask][-m][smollm2:135m]",
        "qchat ask --model=smollm2:1\t": "[ask][--model=smollm2:135m]",
        "qchat models show with\t": "[models][show][with space's]",
        "qchat models show 'with\t": "[models][show][with space's]",
        "qchat models show a:\t": "[models][show][a:b:c]",
        "qchat sessions sh\tb\t": "[sessions][show][bb22]",
        f"qchat prompt {root}/READ\t": f"[prompt][{root}/README.md]",
    }
    typed = 'eval "$(qchat completion bash)"\n' + "".join(f"{line}\n" for line in lines) + "exit\n"
    shown = in_terminal(["bash", "--norc", "--noprofile", "-i"], environment, typed, len(lines))
    results = [line[: -len("<END>")] for line in shown.splitlines() if line.endswith("<END>")]
    assert results == list(lines.values())


def in_terminal(command: list[str], environment: dict[str, str], typed: str, results: int) -> str:
    """What `command` shows in a terminal in which `typed` was typed, until the last result or 60 s."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, environment)
    try:
        os.write(terminal, typed.encode())
        shown, end = b"", time.monotonic() + 60
        while shown.count(b"<END>\r\n") < results and time.monotonic() < end:
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 65536)
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return shown.decode("utf-8", "replace").replace("\r\n", "\n")
