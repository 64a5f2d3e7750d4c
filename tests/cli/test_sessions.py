"""`qchat sessions`: for people, for scripts, and into pipes."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.chat.conversation import Message, Session, new_message
from app.chat.export import to_json
from app.chat.store import Store
from app.cli import run
from app.settings import paths
from tests.chat.stores import chat, put

HOSTILE = "clear \x1b[2J\r\x9b the screen 🐺"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(qchat_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store.open_default(pytest.fail)
    yield store
    store.close()


@pytest.fixture
def zebras(store: Store) -> tuple[Session, list[Message]]:
    """A chat with a branch; the path leads past it."""
    session, (question, reply) = put(store, "Zebras/striped", "Where do zebras live?", "In Africa.")
    reply = replace(reply, thinking="Let me think of the savanna.", model="qwen3:0.6b")
    branch = new_message(question.id, "assistant", "In zoos.")
    for message in (reply, branch):
        store.put_message(session.id, message)
    session = replace(session, leaf_id=reply.id)
    store.put_session(session)
    return session, [question, reply, branch]


def document(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> Any:
    assert run(["sessions", *args, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def lines(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    assert run(["sessions", *args]) == 0
    return capsys.readouterr().out.splitlines()


def test_an_empty_list_says_so_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions", "list"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "" and "no chats yet" in shown.err
    assert document(capsys, "list") == []


def test_the_list(store: Store, zebras: tuple[Session, list[Message]], capsys: pytest.CaptureFixture[str]) -> None:
    untitled, _ = put(store, "", "newest")
    head, newest, older = lines(capsys, "list")
    assert head.split() == ["ID", "WHEN", "MESSAGES", "TITLE"]
    assert newest.split()[0] == untitled.id and newest.endswith("(no title)")
    assert older.split()[0] == zebras[0].id and older.split()[3:] == ["3", "Zebras/striped"]
    listed = document(capsys, "list")
    assert [(one["id"], one["title"], one["messages"]) for one in listed] == [
        (untitled.id, "", 1),
        (zebras[0].id, "Zebras/striped", 3),
    ]


def test_show_prints_the_path_that_was_looked_at(
    zebras: tuple[Session, list[Message]], capsys: pytest.CaptureFixture[str]
) -> None:
    session, (question, reply, branch) = zebras
    text = "\n".join(lines(capsys, "show", session.id[:4]))
    assert "Where do zebras live?" in text and "In Africa." in text
    assert "zoos" not in text and "savanna" not in text
    assert "savanna" in "\n".join(lines(capsys, "show", "Zebras/striped", "--thinking"))
    shown = document(capsys, "show", "last")
    assert shown["path"] == [question.id, reply.id]
    assert [m["id"] for m in shown["messages"]] == [question.id, reply.id, branch.id]


def test_search_finds_titles_and_messages_and_takes_any_text(
    zebras: tuple[Session, list[Message]], capsys: pytest.CaptureFixture[str]
) -> None:
    session, (question, *_) = zebras
    head, title, message = lines(capsys, "search", "zebras")
    assert head.split() == ["ID", "WHEN", "WHO", "TEXT"]
    assert title.split()[0] == message.split()[0] == session.id
    assert "title" in title and message.endswith(["user", "", "", " Where do zebras live?"][-1].strip())
    hits = document(capsys, "search", "live", "zebras")
    assert [(hit["message_id"], hit["matches"]) for hit in hits] == [(question.id, [[9, 15], [16, 20]])]
    assert document(capsys, "search", '"NEAR(* OR') == []
    assert run(["sessions", "search", "savanna"]) == 0
    assert "nothing found" in capsys.readouterr().err
    assert len(document(capsys, "search", "zebras", "--limit", "1")) == 1


def test_rename_takes_any_title_but_an_empty_one(
    store: Store, zebras: tuple[Session, list[Message]], capsys: pytest.CaptureFixture[str]
) -> None:
    session, _ = zebras
    assert lines(capsys, "rename", session.id, "../../x\n 100%s") == [f"{session.id}  ../../x 100%s"]
    assert store.session(session.id).title == "../../x 100%s"
    assert document(capsys, "rename", session.id, "", code=2)["error"]["type"] == "UsageError"
    assert document(capsys, "rename", session.id, "two")["title"] == store.session(session.id).title == "two"


def test_export_names_the_file_by_the_title_and_overwrites_nothing(
    zebras: tuple[Session, list[Message]], capsys: pytest.CaptureFixture[str]
) -> None:
    """S05"""
    assert lines(capsys, "export", "last") == ["Zebras striped.md"]
    assert lines(capsys, "export", "last", "--thinking") == ["Zebras striped-2.md"]
    assert "savanna" not in Path("Zebras striped.md").read_text()
    assert "savanna" in Path("Zebras striped-2.md").read_text()
    Path("mine").write_text("precious")
    assert run(["sessions", "export", "last", "-o", "mine"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and "--force" in shown.err
    assert Path("mine").read_text() == "precious"
    assert lines(capsys, "export", "last", "-o", "mine", "--force") == ["mine"]
    assert Path("mine").read_text() == Path("Zebras striped.md").read_text()
    assert lines(capsys, "export", "last", "-o", "-") == Path("mine").read_text().splitlines()
    assert run(["sessions", "export", "last", "-o", "missing/folder"]) == 1
    assert "missing/folder" in capsys.readouterr().err
    assert sorted(file.name for file in Path().iterdir()) == ["Zebras striped-2.md", "Zebras striped.md", "mine"]


def test_an_export_is_imported_and_never_twice_as_the_same(
    store: Store,
    zebras: tuple[Session, list[Message]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, messages = zebras
    assert lines(capsys, "export", "last", "--json", "-o", "chat.json") == ["chat.json"]
    store.remove(session.id)
    assert document(capsys, "import", "chat.json")[0] | {"updated": 0} == {
        "id": session.id,
        "title": "Zebras/striped",
        "titled_by_person": False,
        "created": session.created,
        "updated": 0,
        "leaf_id": session.leaf_id,
        "added": 3,
        "renumbered": False,
    }
    assert store.messages(session.id) == messages
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("chat.json").read_bytes())))
    (line,) = lines(capsys, "import", "-")
    assert line.split()[0] != session.id and "messages added: 3" in line
    assert len(store.sessions()) == 2
    Path("foreign.json").write_text("{}")
    for name in ("foreign.json", "missing.json", "."):
        assert document(capsys, "import", name, code=2)["error"]["type"] == "UsageError"
    assert len(store.sessions()) == 2


def test_a_large_import_tells_on_stderr_how_far_it_is(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    Path("small.json").write_text(to_json([chat("small", "q", "a")]))
    Path("large.json").write_text(to_json([chat("large", *["word " * 100_000] * 4)]))
    assert run(["sessions", "import", "small.json"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["sessions", "import", "large.json"]) == 0
    told = capsys.readouterr()
    assert told.err == "importing (2.0 MB)\nimporting: 50 %\n" and told.out.count("\n") == 1
    assert len(store.sessions()) == 2


def test_delete_asks_and_takes_no_for_an_answer(
    store: Store,
    zebras: tuple[Session, list[Message]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(store, "other", "q")
    assert run(["sessions", "delete", "other"]) == 2
    assert "--yes" in capsys.readouterr().err
    for answer, code, left in (("n\n", 1, 2), ("\n", 1, 2), ("y\n", 0, 1)):
        stdin = io.StringIO(answer)
        monkeypatch.setattr(stdin, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", stdin)
        assert run(["sessions", "delete", "other"]) == code
        assert len(store.sessions()) == left
        shown = capsys.readouterr()
        assert "Delete for good?" in shown.err and ("deleted" in shown.out) == (code == 0)
    assert document(capsys, "delete", "last", "last", "--yes")[0]["id"] == zebras[0].id
    assert store.sessions() == []


@pytest.mark.parametrize("command", [["show", "x"], ["rename", "x", "y"], ["export", "x"], ["delete", "--yes", "x"]])
def test_an_unknown_chat_is_a_failure(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, *command, code=1)["error"]["type"] == "SessionNotFoundError"
    assert run(["sessions", *command]) == 1
    shown = capsys.readouterr()
    assert shown.out == "" and "'x'" in shown.err


def test_a_damaged_file_is_told_of_on_stderr(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    put(store, "kept", "q")
    store.close()
    path = paths().data_dir / "sessions.db"
    path.write_bytes(b"x" * 4096 + path.read_bytes()[4096:])
    assert run(["sessions", "list"]) == 0
    shown = capsys.readouterr()
    assert "damaged" in shown.err and "kept" in shown.out


def qchat(*args: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    env = os.environ | {"PYTHONIOENCODING": "cp1252"} | environment
    return subprocess.run([sys.executable, "-m", "app", "sessions", *args], capture_output=True, env=env, check=True)


@pytest.mark.parametrize("args", [["list"], ["show", "last"], ["search", "screen"], ["rename", "last", HOSTILE]])
def test_nothing_drives_a_terminal_and_a_pipe_gets_utf_8(store: Store, args: list[str], tmp_path: Path) -> None:
    """L03, L07"""
    put(store, HOSTILE, HOSTILE)
    root = str(Path(__file__).parents[2])
    piped = qchat(*args, PYTHONPATH=root, FORCE_COLOR="1").stdout
    assert "🐺".encode() in piped
    assert not set(piped) & (set(range(32)) - {10}) and b"\xc2\x9b" not in piped
    leader, follower = pty.openpty()
    env = os.environ | {"PYTHONPATH": root, "TERM": "xterm-256color"}
    with subprocess.Popen([sys.executable, "-m", "app", "sessions", *args], stdout=follower, env=env) as process:
        os.close(follower)
        shown = b""
        while piece := _read(leader):
            shown += piece
        assert process.wait() == 0
    os.close(leader)
    assert b"the screen" in shown and b"\x1b" not in shown


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # Linux says so when the other end is closed
        return b""
