"""An API key is in the header of the request and nowhere else: no list of processes, log, chat, history or message."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.backends.ollama.server import FakeOllama, line, serving

KEY = "sk-4f9a-no-one-may-see-this"
QCHAT = [sys.executable, "-m", "app"]


def environment(home: Path, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("QCHAT_")}
    return clean | {"QCHAT_HOME": str(home), "PYTHON_KEYRING_BACKEND": "tests.backends.keyrings.FileKeyring"} | more


def write_config(home: Path, url: str, more: str = "") -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").touch(mode=0o600)
    (home / "config.toml").write_text(f'[servers.work]\nkind = "ollama"\nurl = "{url}"\n{more}\n')


def everything_written(home: Path) -> bytes:
    return b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file() and file.name != "config.toml")


def command_lines() -> list[str]:
    return [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]


@pytest.mark.parametrize("kept", ["environment", "keyring"])
def test_nothing_shows_the_key_while_it_is_used(tmp_path: Path, kept: str) -> None:
    home = tmp_path / "home"
    seen: list[str] = []

    def reply() -> Iterator[bytes]:
        yield line({"content": "Hi"})
        seen.extend(command_lines())
        yield b'{"error": "the key ' + KEY.encode() + b' is known to me"}\n'  # qchat does not repeat it

    fake = FakeOllama(script=reply())
    with serving(fake):
        write_config(home, fake.url)
        env = environment(home, QCHAT_DEBUG="1", TEST_KEYRING=str(tmp_path / "keyring"))
        if kept == "environment":
            env["QCHAT_KEY_WORK"] = KEY
        else:
            login = subprocess.Popen(
                [*QCHAT, "backends", "login", "work"], env=env, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            seen.extend(command_lines())
            assert KEY not in str(login.communicate(KEY + "\n"))
            assert login.returncode == 0 and KEY in (tmp_path / "keyring").read_text()
        command = [*QCHAT, "ask", "--session", "new", "--no-stdin", "--json", "--stats", "-m", "work/", "hi"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "is known to me" in done.stderr
    assert fake.headers[-1]["authorization"] == f"Bearer {KEY}"
    assert any("app ask --session" in command for command in seen)  # the look was worth something
    assert KEY not in "".join(seen) + done.stdout + done.stderr
    assert KEY.encode() not in everything_written(home)


def test_a_bug_does_not_write_the_key_into_the_log(tmp_path: Path) -> None:
    """The traceback of an exception that nobody planned for is kept, and the key is on the way through there."""
    home = tmp_path / "home"
    write_config(home, "http://127.0.0.1:9")
    code = (
        "import app.backends.remote.http as http, sys\n"
        "def broken(server, url): raise ValueError(f'no client for {server} with {server.key!r} {server.headers}')\n"
        "http.ServerClient = broken\n"
        "import app.backends.ollama.backend as backend; backend.ServerClient = broken\n"
        "from app.cli import run; sys.exit(run(['ask', '--no-stdin', '-m', 'work/', 'hi']))"
    )
    env = environment(home, QCHAT_KEY_WORK=KEY)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    log = (home / "logs" / "qchat.log").read_text()
    assert done.returncode == 1 and "unexpected ValueError" in done.stderr and "no client for ServerSettings" in log
    assert KEY not in done.stderr + done.stdout + log
