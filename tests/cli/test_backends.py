"""`qchat backends`: what is there, what it has, and the keys that it wants."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.cli import run
from app.settings import paths
from tests.backends.keyrings import MemoryKeyring
from tests.backends.ollama.server import CUT, FakeOllama, Model, last, line, serving

pytestmark = pytest.mark.usefixtures("qchat_home")

KEY = "sk-4f9a-secret"


def write_config(text: str) -> Path:
    file = paths().config_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
    return file


def looks(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, dict[str, dict[str, Any]]]:
    code = run(["backends", *args, "--json"])
    return code, {look["name"]: look for look in json.loads(capsys.readouterr().out)}


def ollama(name: str, url: str, more: str = "") -> str:
    return f'[servers.{name}]\nkind = "ollama"\nurl = "{url}"\n{more}\n'


def test_everything_is_listed_and_only_servers_are_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(FakeOllama(models=[Model("a"), Model("b")])) as fake:
        write_config(ollama("work", fake.url) + ollama("gone", "http://127.0.0.1:9"))
        code, found = looks(capsys)
        assert fake.requests == [("/api/tags", None)]  # no token is asked for without --check
    assert code == 0  # nobody named the one that is not there
    assert list(found)[-2:] == ["work", "gone"] and {"local", "openai", "ollama"} <= set(found)
    assert found["local"] | {"at": "this process", "state": "ready", "models": [], "usable": True} == found["local"]
    work = found["work"]
    assert (work["kind"], work["at"], work["state"], work["models"]) == ("ollama", fake.url, "reachable", ["a", "b"])
    assert 0 < work["latency_s"] < 60 and work["streams"] is None
    assert found["gone"]["state"] == "unreachable" and "cannot be reached" in found["gone"]["problem"]
    assert found["openai"]["state"] == "installed"  # and not asked: nobody has said so


def test_the_exit_code_is_about_those_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(FakeOllama()) as fake:
        write_config(ollama("work", fake.url) + ollama("gone", "http://127.0.0.1:9"))
        assert looks(capsys, "work")[0] == 0
        code, found = looks(capsys, "list", "work", "gone")
        assert (code, list(found)) == (3, ["work", "gone"])


def test_the_table_is_for_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCHAT_KEY_WORK", KEY)
    with serving(FakeOllama()) as fake:
        write_config(ollama("work", fake.url) + ollama("gone", "http://127.0.0.1:9"))
        assert run(["backends", "work", "gone"]) == 3
    said = capsys.readouterr()
    head, work, gone = said.out.splitlines()
    assert head.split() == ["NAME", "KIND", "AT", "KEY", "MODELS", "LATENCY", "STATE"]
    assert work.split()[:5] == ["work", "ollama", fake.url, "QCHAT_KEY_WORK", "1"] and re.search(
        r" [\d,]+ ms +reachable$", work
    )
    assert gone.split() == ["gone", "ollama", "http://127.0.0.1:9", "unreachable"]
    assert said.err.startswith("gone: gone cannot be reached at http://127.0.0.1:9") and KEY not in said.out + said.err


def test_check_asks_for_one_token(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(FakeOllama()) as fake:
        write_config(ollama("work", fake.url))
        assert looks(capsys, "work")[1]["work"]["streams"] is None and fake.asked("/api/chat") == []
        code, found = looks(capsys, "work", "--check")
        assert code == 0 and found["work"]["streams"] is True and found["work"]["first_token_s"] > 0
        [body] = fake.asked("/api/chat")
        assert body["options"] == {"num_predict": 1} and body["model"] == "qwen3:8b"


def test_the_table_has_a_column_for_what_was_checked(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(FakeOllama()) as fake, serving(FakeOllama(script=[CUT])) as broken:
        write_config(ollama("work", fake.url) + ollama("broken", broken.url))
        assert run(["backends", "work", "broken", "--check"]) == 3
    said = capsys.readouterr()
    head, work, no = said.out.splitlines()
    assert head.split()[-3:] == ["LATENCY", "STREAMS", "STATE"]
    assert re.search(r" after \d+\.\d\d s +reachable$", work) and re.search(r" no +reachable$", no)
    assert said.err.splitlines() == [
        "broken: broken ended the connection without a reply",
        "  the server's own log may say why",
    ]


def test_what_was_not_checked_has_an_empty_cell(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(FakeOllama(models=[Model("a"), Model("b")])) as fake:
        write_config(ollama("work", fake.url))
        assert run(["backends", "work", "--check"]) == 0
    assert re.search(r" ms +reachable$", capsys.readouterr().out.splitlines()[1])


def test_a_backend_that_is_named_is_asked_at_its_usual_address(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(FakeOllama(models=[Model("a")])) as fake:
        monkeypatch.setattr("app.backends.ollama.api.DEFAULT_URL", fake.url)
        code, found = looks(capsys, "ollama")
    assert (code, found["ollama"]["state"], found["ollama"]["models"]) == (0, "reachable", ["a"])


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        (FakeOllama(script=[CUT]), "ended the connection without a reply"),
        (FakeOllama(script=[last()]), "it sent no token"),
        (FakeOllama(script=[line({"content": "x"}), CUT]), "broke off"),
        (FakeOllama(refuse=(500, b'{"error": "out of memory"}')), "out of memory"),
    ],
)
def test_check_finds_a_server_that_lists_models_and_cannot_answer(
    capsys: pytest.CaptureFixture[str], fake: FakeOllama, said: str
) -> None:
    with serving(fake):
        write_config(ollama("work", fake.url))
        code, found = looks(capsys, "work", "--check")
    assert code == 3 and found["work"]["state"] == "reachable"
    assert found["work"]["streams"] is False and said in found["work"]["problem"]


def test_check_takes_the_model_of_the_table_and_of_several_none(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(FakeOllama(models=[Model("a"), Model("b")])) as fake:
        write_config(ollama("work", fake.url) + ollama("home", fake.url, 'model = "b"'))
        code, found = looks(capsys, "work", "home", "--check")
        assert code == 0 and [body["model"] for body in fake.asked("/api/chat")] == ["b"]
        assert found["work"]["streams"] is None and "several" in found["work"]["problem"]


@pytest.mark.parametrize(
    ("table", "state", "said"),
    [
        ('kind = "olama"\nurl = "h:1"', "broken", "no such backend is installed"),
        ('kind = "openai"', "broken", "has no url"),
        ('kind = "ollama"\nurl = "URL/elsewhere"', "refused", "404"),
    ],
)
def test_a_server_that_is_set_up_wrongly_says_how(
    capsys: pytest.CaptureFixture[str], table: str, state: str, said: str
) -> None:
    with serving(FakeOllama()) as fake:
        write_config(f"[servers.work]\n{table}".replace("URL", fake.url))
        code, found = looks(capsys, "work")
    assert (code, found["work"]["state"]) == (3, state) and said in found["work"]["problem"]


def test_a_server_that_says_nothing_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    import socket  # noqa: PLC0415

    with socket.create_server(("127.0.0.1", 0)) as silent:
        write_config(ollama("work", f"http://127.0.0.1:{silent.getsockname()[1]}"))
        code, found = looks(capsys, "work", "--timeout", "0.3")
    assert (code, found["work"]["state"]) == (3, "unreachable")


@pytest.mark.parametrize("command", [["list", "wrk"], ["wrk"], ["login", "wrk"]])
def test_a_name_that_is_none_is_a_usage_error(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    write_config(ollama("work", "h:1"))
    assert run(["backends", *command]) == 2
    assert "did you mean work?" in capsys.readouterr().err


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> MemoryKeyring:
    keyring = MemoryKeyring()
    monkeypatch.setattr("keyring.core._keyring_backend", keyring)
    return keyring


def test_a_key_goes_from_standard_input_to_the_keyring_to_the_server(
    memory: MemoryKeyring, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{KEY}\nnot this\n"))
    with serving(FakeOllama()) as fake:
        write_config(ollama("work", fake.url))
        assert run(["backends", "login", "work"]) == 0
        assert memory.kept == {"qchat work": KEY}
        assert run(["ask", "--no-stdin", "-m", "work/", "hi"]) == 0
        assert fake.headers[-1]["authorization"] == f"Bearer {KEY}"
        said = capsys.readouterr()
        assert KEY not in said.out + said.err
        assert looks(capsys, "work")[1]["work"]["key"] == "the keyring"
        assert run(["backends", "logout", "work"]) == 0 and memory.kept == {}
        assert run(["backends", "logout", "work"]) == 1
        assert run(["ask", "--no-stdin", "-m", "work/", "hi"]) == 0
        assert "authorization" not in fake.headers[-1]
    said = capsys.readouterr()
    assert KEY not in said.out + said.err


@pytest.mark.parametrize("typed", ["", "\n", "two words\n"])
def test_what_is_no_key_is_not_kept(memory: MemoryKeyring, monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    write_config(ollama("work", "h:1"))
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert run(["backends", "login", "work"]) == 2 and memory.kept == {}
