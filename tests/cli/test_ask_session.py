"""`qchat ask --session` and `--continue`: what is sent, what is saved, and what happens when something goes wrong."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.backends.base import Answer, ChatRequest, Event, Thinking
from app.chat.conversation import Conversation, Message, Session
from app.chat.store import Store
from app.cli import run
from app.errors import BackendError, BackendTimeoutError, ContextOverflowError, QChatError
from app.settings import Settings, paths
from app.ui.plain import PlainOutput
from tests.backends.fakes import FakeBackend

pytestmark = pytest.mark.usefixtures("qchat_home")

Serve = Callable[[FakeBackend], list[Settings]]
REPLY = (Thinking("hm"), Answer("It is "), Answer("4 🚀."))


@pytest.fixture(autouse=True)
def no_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Make `ask` talk to the given backend; the list fills with the settings that it was opened with."""

    def use(backend: FakeBackend) -> list[Settings]:
        opened: list[Settings] = []
        for module in ("answer", "answer_in_chat"):
            target = f"app.cli.{module}.open_backend"
            monkeypatch.setattr(target, lambda settings, _report: opened.append(settings) or backend)
        return opened

    return use


@pytest.fixture
def chat(serve: Serve, capsys: pytest.CaptureFixture[str]) -> str:
    """The id of a chat with one question and its answer."""
    serve(FakeBackend(*REPLY))
    assert run(["ask", "--session", "new", "-m", "first", "2+2?"]) == 0
    return capsys.readouterr().err.split()[-1]


def saved(wanted: str = "last") -> tuple[Session, Sequence[Message]]:
    store = Store.open_default(pytest.fail)
    try:
        session = store.session(wanted)
        return session, Conversation(store.messages(session.id), session.leaf_id).path()
    finally:
        store.close()


def said(wanted: str = "last") -> list[tuple[str, str, str]]:
    return [(message.role, message.content, message.state) for message in saved(wanted)[1]]


def test_new_begins_a_chat_and_tells_its_id(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    backend = FakeBackend(*REPLY)
    serve(backend)
    assert run(["ask", "--session", "new", "2+2?"]) == 0
    out, err = capsys.readouterr()
    session, path = saved()
    assert (out, err) == ("It is 4 🚀.\n", f"qchat: this is chat {session.id}\n")
    assert (session.title, path[1].thinking) == ("2+2?", "hm")
    assert said() == [("user", "2+2?", "stop"), ("assistant", "It is 4 🚀.", "stop")]
    assert backend.closed


def test_a_question_goes_to_the_end_of_the_chat_with_all_that_was_said(serve: Serve, chat: str) -> None:
    for number, arguments in enumerate(
        (["--session", chat], ["--session", chat[:4]], ["--session", "2+2?"], ["--continue"])
    ):
        backend = FakeBackend(Answer("yes"))
        serve(backend)
        assert run(["ask", *arguments, f"sure {number}?"]) == 0
        sent = backend.requests[0].messages
        assert sent[0] == {"role": "user", "content": "2+2?"}
        assert sent[1] == {"role": "assistant", "content": "It is 4 🚀.", "reasoning_content": "hm"}
        assert sent[-1] == {"role": "user", "content": f"sure {number}?"}
        assert len(sent) == 3 + 2 * number
        assert said(chat)[-2:] == [("user", f"sure {number}?", "stop"), ("assistant", "yes", "stop")]


def test_the_model_is_the_chats_unless_another_is_named_for_once(
    serve: Serve, chat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QCHAT_MODEL", "another-default")
    opened = serve(FakeBackend(*REPLY))
    for arguments in ([], ["-m", "second"], []):
        assert run(["ask", "--session", chat, "again", *arguments]) == 0
    assert [settings.model for settings in opened] == ["first", "second", "first"]


def test_a_new_chat_keeps_what_it_was_begun_with_but_not_the_machine(serve: Serve) -> None:
    backend = FakeBackend(*REPLY)
    opened = serve(backend)
    line = ["--system", "Brief.", "--no-think", "--temp", "0.5", "--max-tokens", "9", "--ctx", "512", "--threads", "1"]
    assert run(["ask", "--session", "new", "one", *line]) == 0
    assert run(["ask", "--continue", "two", "--temp", "0.25"]) == 0
    assert run(["ask", "--continue", "three"]) == 0
    for request in backend.requests:
        assert request.messages[0] == {"role": "system", "content": "Brief."}
        assert (request.thinking, request.max_tokens) == (False, 9)
    assert [request.sampling.temperature for request in backend.requests] == [0.5, 0.25, 0.5]
    assert [(s.ctx == 512, s.threads == 1) for s in opened] == [(True, True), (False, False), (False, False)]


def test_json_names_the_chat(serve: Serve, chat: str, capsys: pytest.CaptureFixture[str]) -> None:
    serve(FakeBackend(*REPLY))
    assert run(["ask", "--json", "--stats", "--continue", "hi"]) == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document.pop("usage")["prompt_tokens"] == 3
    assert document == {
        "session": chat,
        "model": "fake:1b",
        "backend": "local",
        "answer": "It is 4 🚀.",
        "thinking": "hm",
        "tool_calls": [],
        "finish_reason": "stop",
        "prompt_ids": [1, 2, 3],
        "answer_ids": [4, 5],
        "notices": [],
    }
    assert "the head was requantised" in shown.err


def test_show_thinking_counts_in_a_chat_too(serve: Serve, chat: str, capsys: pytest.CaptureFixture[str]) -> None:
    serve(FakeBackend(*REPLY))
    assert run(["ask", "--session", chat, "--show-thinking", "hi"]) == 0
    assert capsys.readouterr().err == "hm\n\n"


def test_without_the_options_nothing_is_saved(serve: Serve) -> None:
    serve(FakeBackend(*REPLY))
    assert run(["ask", "hi"]) == 0
    assert not paths().data_dir.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--session", "nosuch\x1b[2J"], 1, "'qchat sessions list' shows them"),
        (["--session", ""], 1, "'qchat sessions list' shows them"),
        (["--continue"], 1, "'qchat ask --session new' begins one"),
        (["--continue", "--session", "new"], 2, "give one of them"),
        (["--session", "new", "--raw"], 2, "--raw"),
        (["--continue", "--stop", "x"], 2, "--stop"),
    ],
)
def test_a_chat_that_cannot_be_gone_on_with_is_said_before_a_model_is_opened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    monkeypatch.setattr("app.cli.answer_in_chat.open_backend", lambda *_: pytest.fail("a model was opened"))
    assert run(["ask", "hi", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == "" and words in err and "\x1b" not in err
    assert run(["ask", "hi", "--json", *arguments]) == code
    assert json.loads(capsys.readouterr().out)["error"]["message"]


@pytest.mark.parametrize(
    ("error", "code"),
    [(BackendError("server down"), 3), (BackendTimeoutError("too slow"), 4), (ContextOverflowError(300, 100), 1)],
)
def test_a_reply_that_fails_has_the_errors_code_and_is_kept(
    serve: Serve, chat: str, capsys: pytest.CaptureFixture[str], error: QChatError, code: int
) -> None:
    serve(FakeBackend(Answer("half"), error))
    assert run(["ask", "--session", chat, "more?"]) == code
    out, err = capsys.readouterr()
    assert out == "half\n" and err.startswith(f"qchat: {error.message}\n")
    assert said(chat)[-2:] == [("user", "more?", "stop"), ("assistant", "half", "error")]
    assert run(["ask", "--json", "--session", chat, "more?"]) == code
    assert json.loads(capsys.readouterr().out)["error"]["message"] == error.message


def test_a_model_that_cannot_be_opened_leaves_the_chat_as_it_was(
    monkeypatch: pytest.MonkeyPatch, chat: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_settings: Settings, _report: Any) -> FakeBackend:
        raise BackendError("server down")

    before = said(chat)
    monkeypatch.setattr("app.cli.answer_in_chat.open_backend", fail)
    assert run(["ask", "--session", chat, "more?"]) == 3
    assert said(chat) == before
    assert run(["ask", "--session", "new", "more?"]) == 3
    assert saved()[0].id == chat


class InterruptedBackend(FakeBackend):
    """Ctrl-C arrives after the events."""

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        async for event in super().chat(request):
            if isinstance(event, Answer):
                yield event
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.Event().wait()


def test_ctrl_c_saves_what_was_said(serve: Serve, chat: str, capsys: pytest.CaptureFixture[str]) -> None:
    backend = InterruptedBackend(Answer("half"), endless=True)
    serve(backend)
    assert run(["ask", "--session", chat, "more?"]) == 130
    assert capsys.readouterr() == ("half\n", "qchat: interrupted\n")
    assert backend.closed
    assert said(chat)[-2:] == [("user", "more?", "stop"), ("assistant", "half", "cancelled")]
    assert run(["ask", "--json", "--session", chat, "more?"]) == 130
    document = json.loads(capsys.readouterr().out)
    assert (document["session"], document["answer"], document["finish_reason"]) == (chat, "half", "cancelled")
    assert document["error"]["message"] == "interrupted"


def test_ctrl_c_before_the_reply_is_one_json_document_too(
    monkeypatch: pytest.MonkeyPatch, chat: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_settings: Settings, _report: Any) -> FakeBackend:
        raise KeyboardInterrupt

    monkeypatch.setattr("app.cli.answer_in_chat.open_backend", interrupted)
    assert run(["ask", "--json", "--session", chat, "hi"]) == 130
    assert json.loads(capsys.readouterr().out)["error"]["message"] == "interrupted"


def test_where_the_chats_cannot_be_written_the_answer_is_given_and_kept_in_a_file(
    serve: Serve, qchat_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (qchat_home / "data" / "sessions.db").mkdir(parents=True)  # no file can be there
    monkeypatch.setattr("app.cli.answer_in_chat.SAVE_WITHIN_S", 0.05)
    serve(FakeBackend(*REPLY))
    assert run(["ask", "--session", "new", "2+2?"]) == 1
    out, err = capsys.readouterr()
    (kept,) = (qchat_home / "data").glob("unsaved-*.json")
    assert out == "It is 4 🚀.\n"
    assert "not saved" in err and "is a folder" in err and str(kept) in err and "qchat sessions import" in err
    text = kept.read_text(encoding="utf-8")
    assert "2+2?" in text and "It is 4 🚀." in text
    assert run(["ask", "--json", "--session", "new", "2+2?"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["answer"] == "It is 4 🚀." and "not saved" in document["error"]["message"]


def test_where_no_file_at_all_can_be_written_that_is_said(
    serve: Serve, qchat_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    qchat_home.write_text("a file where the folder should be")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(qchat_home / "nowhere"))
    monkeypatch.setattr("app.cli.answer_in_chat.SAVE_WITHIN_S", 0.05)
    serve(FakeBackend(*REPLY))
    assert run(["ask", "--session", "new", "2+2?"]) == 1
    out, err = capsys.readouterr()
    assert out == "It is 4 🚀.\n" and "could not be written to any other file" in err


@pytest.mark.parametrize(("error", "code"), [(BrokenPipeError(), 0), (OSError(28, "No space left on device"), 1)])
def test_a_stdout_that_fails_ends_the_reply_and_the_text_is_kept(
    serve: Serve, chat: str, monkeypatch: pytest.MonkeyPatch, error: OSError, code: int
) -> None:
    def show(_output: PlainOutput, event: Event) -> None:
        if isinstance(event, Answer):
            raise error

    monkeypatch.setattr(PlainOutput, "show", show)
    serve(FakeBackend(Answer("all of it"), endless=True))
    assert run(["ask", "--session", chat, "more?"]) == code
    assert said(chat)[-1] == ("assistant", "all of it", "cancelled")


def test_a_reply_cut_off_while_thinking_is_kept_and_the_next_prompt_is_whole(
    serve: Serve, chat: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """C04: the thinking is a field of the message, so nothing is left open in the next prompt."""
    serve(FakeBackend(Thinking("on and on"), reason="length"))
    assert run(["ask", "--session", chat, "more?"]) == 1
    assert "still thinking" in capsys.readouterr().err
    assert said(chat)[-1] == ("assistant", "", "length")
    backend = FakeBackend(*REPLY)
    serve(backend)
    assert run(["ask", "--session", chat, "shorter?"]) == 0
    assert list(backend.requests[0].messages)[-2:] == [
        {"role": "assistant", "content": "", "reasoning_content": "on and on"},
        {"role": "user", "content": "shorter?"},
    ]


def test_whatever_is_asked_reaches_the_model_as_text(serve: Serve, chat: str) -> None:
    """C05, S04: a slash is no command here, and bytes that are not UTF-8 neither fail nor spoil the file."""
    backend = FakeBackend(*REPLY)
    serve(backend)
    for asked, sent in (("/no_think hello", "/no_think hello"), (os.fsdecode(b"caf\xe9"), "caf\ufffd")):
        assert run(["ask", "--session", chat, asked]) == 0
        assert backend.requests[-1].messages[-1] == {"role": "user", "content": sent}
        assert said(chat)[-2] == ("user", sent, "stop")
