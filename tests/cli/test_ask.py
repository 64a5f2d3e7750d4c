"""`qchat ask`: what goes to stdout and stderr, exit codes, standard input, interruption, real processes."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from app.backends.base import Answer, ChatRequest, Event, Notice, Thinking, ToolCall
from app.backends.local import open_local
from app.cli import run
from app.cli.stdin import WAITING, read_to_end
from app.errors import BackendError, BackendTimeoutError, ContextOverflowError
from app.settings import Settings
from tests.backends.fakes import FakeBackend

pytestmark = pytest.mark.usefixtures("qchat_home")

Serve = Callable[[FakeBackend], list[Settings]]


@pytest.fixture(autouse=True)
def no_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)  # as with <&-


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Make `ask` talk to the given backend; the list fills with the settings that it was opened with."""

    def use(backend: FakeBackend) -> list[Settings]:
        opened: list[Settings] = []
        monkeypatch.setattr("app.cli.answer.open_backend", lambda settings, _report: opened.append(settings) or backend)
        return opened

    return use


def pipe_in(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def question(backend: FakeBackend) -> str:
    content: str = backend.requests[0].messages[-1]["content"]
    return content


REPLY = (Thinking("hm"), Answer("It is "), Answer("4 🚀."))
CALL = ToolCall("f", {"a": 1}, '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>')


def test_stdout_is_the_answer_and_one_newline(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    backend = FakeBackend(*REPLY)
    serve(backend)
    assert run(["ask", "2+2?"]) == 0
    assert capsys.readouterr() == ("It is 4 🚀.\n", "")
    assert backend.closed


def test_options_become_the_request_and_the_settings(serve: Serve) -> None:
    backend = FakeBackend(*REPLY)
    opened = serve(backend)
    sampling = ["--temp", "0.5", "--seed", "7", "--max-tokens", "9", "--stop", "a", "--stop", "b"]
    assert run(["ask", "hi", "-m", "some", "--system", "Brief.", "--no-think", "--ctx", "512", *sampling]) == 0
    asked = backend.requests[0]
    assert list(asked.messages) == [{"role": "system", "content": "Brief."}, {"role": "user", "content": "hi"}]
    assert (asked.thinking, asked.max_tokens, tuple(asked.stop)) == (False, 9, ("a", "b"))
    assert (asked.sampling.temperature, asked.sampling.seed, asked.raw_prompt) == (0.5, 7, None)
    assert (opened[0].model, opened[0].ctx) == ("some", 512)


def test_by_default_a_reply_is_bounded_and_thinking_is_left_to_the_template(serve: Serve) -> None:
    backend = FakeBackend(*REPLY)
    serve(backend)
    run(["ask", "hi"])
    assert backend.requests[0].max_tokens > 0
    assert backend.requests[0].thinking is None
    assert [message["role"] for message in backend.requests[0].messages] == ["user"]


def test_raw_sends_the_text_alone(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    backend = FakeBackend(*REPLY)
    serve(backend)
    assert run(["ask", "--raw", "once upon"]) == 0
    assert backend.requests[0].raw_prompt == "once upon"
    assert run(["ask", "--raw", "--system", "x", "once upon"]) == 2
    assert "--raw" in capsys.readouterr().err


def test_thinking_statistics_and_tool_calls_go_to_stderr(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve(FakeBackend(*REPLY, CALL))
    assert run(["ask", "--show-thinking", "--stats", "hi"]) == 0
    out, err = capsys.readouterr()
    assert out == "It is 4 🚀.\n"
    assert err.startswith("hm\n\n" + CALL.raw + "\n")
    assert "the head was requantised" in err


def test_json_is_one_object_with_everything(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve(FakeBackend(*REPLY, CALL, Notice("careful")))
    assert run(["ask", "--json", "--show-thinking", "--stats", "hi"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.pop("usage")["prompt_tokens"] == 3
    assert document == {
        "model": "fake:1b",
        "backend": "local",
        "answer": "It is 4 🚀.",
        "thinking": "hm",
        "tool_calls": [{"name": "f", "arguments": {"a": 1}, "raw": CALL.raw}],
        "finish_reason": "stop",
        "prompt_ids": [1, 2, 3],
        "answer_ids": [4, 5],
        "notices": ["careful"],
    }


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        (["hi"], BackendError("server down"), 3),
        (["hi"], BackendTimeoutError("too slow"), 4),
        (["hi"], ContextOverflowError(300, 100), 1),
        (["hi", "--no-such"], None, 2),
        (["hi", "--max-tokens", "0"], None, 2),
        (["hi", "--temp", "nan"], None, 2),
        (["hi", "--stop", ""], None, 2),
        (["hi", "-m", "no/such/model"], None, 1),
        ([""], None, 2),
        (["   "], None, 2),
        (["\n"], None, 2),
        ([], None, 2),
        (["-5 + 3?"], None, 2),
    ],
)
def test_failures_have_their_code_and_leave_stdout_to_json(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    error: Exception | None,
    code: int,
    as_json: bool,
) -> None:
    def fail(_settings: Settings, _report: Any) -> FakeBackend:
        if error is None:
            pytest.fail("the backend was opened")
        return FakeBackend(error)

    if "-m" not in arguments:
        monkeypatch.setattr("app.cli.answer.open_backend", fail)
    else:
        monkeypatch.setattr("app.cli.answer.open_backend", open_local)
    assert run(["ask", *(["--json"] if as_json else []), *arguments]) == code
    out, err = capsys.readouterr()
    assert err.startswith("qchat: ")
    assert len(err.splitlines()) <= 2
    assert "Traceback" not in err
    if as_json:
        assert json.loads(out)["error"]["message"]
    else:
        assert out == ""


def test_a_prompt_that_begins_with_a_dash_goes_after_two_dashes(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    for prompt in ("-5 + 3?", "--help", "0", "@file", "!ls", "/no_think hello"):
        backend = FakeBackend(*REPLY)
        serve(backend)
        assert run(["ask", "--", prompt]) == 0
        assert question(backend) == prompt
    run(["ask", "-5 + 3?"])
    assert "after --" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "piped", "asked"),
    [
        ("sum up", b"one\ntwo\n", "sum up\n\none\ntwo"),
        ("sum up", b"", "sum up"),
        ("-", b"from stdin\n", "from stdin"),
        (None, b"\xef\xbb\xbffrom stdin", "from stdin"),
        ("", b"text", "text"),
        ("x", "caf\u00e9 \U0001f680".encode(), "x\n\ncaf\u00e9 \U0001f680"),
    ],
)
def test_standard_input_is_appended(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, argument: str | None, piped: bytes, asked: str
) -> None:
    backend = FakeBackend(*REPLY)
    serve(backend)
    pipe_in(monkeypatch, piped)
    assert run(["ask", *([] if argument is None else [argument])]) == 0
    assert question(backend) == asked


def test_no_stdin_leaves_it_alone(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend(*REPLY)
    serve(backend)
    pipe_in(monkeypatch, b"not this")
    assert run(["ask", "--no-stdin", "hi"]) == 0
    assert question(backend) == "hi"


def test_standard_input_that_is_not_utf8_is_said(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = FakeBackend(*REPLY)
    serve(backend)
    pipe_in(monkeypatch, b"caf\xe9")
    assert run(["ask"]) == 0
    assert question(backend) == "caf\ufffd"
    assert "UTF-8" in capsys.readouterr().err


def test_an_argument_that_is_not_utf8_is_no_exception(serve: Serve) -> None:
    backend = FakeBackend(*REPLY)
    serve(backend)
    assert run(["ask", os.fsdecode(b"caf\xe9")]) == 0
    assert question(backend) == "caf\ufffd"


def test_waiting_for_a_silent_pipe_is_said() -> None:
    """The writer closes its end only when the reader has said that it waits."""
    reader, writer = os.pipe()
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        os.close(writer)

    with open(reader, "rb") as stream:  # noqa: PTH123 - a descriptor
        assert read_to_end(stream, say, hint_after_s=0.01) == ""
    assert said == [WAITING]


def test_a_reply_cut_off_while_thinking_has_a_code_of_its_own(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve(FakeBackend(Thinking("hm"), reason="length"))
    assert run(["ask", "hi"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "still thinking" in err
    assert run(["ask", "--json", "hi"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["finish_reason"], document["thinking"], document["answer"]) == ("length", "hm", "")
    assert document["error"]["message"]


def test_an_answer_that_was_cut_off_is_said_and_is_no_failure(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve(FakeBackend(Answer("half"), reason="length"))
    assert run(["ask", "hi"]) == 0
    out, err = capsys.readouterr()
    assert out == "half\n" and "cut off" in err


class InterruptedBackend(FakeBackend):
    """Ctrl-C arrives after the events."""

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        async for event in super().chat(request):
            if isinstance(event, Answer):
                yield event
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.Event().wait()


def test_ctrl_c_keeps_what_was_said_and_ends_with_130(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    backend = InterruptedBackend(Answer("half"), endless=True)
    serve(backend)
    assert run(["ask", "hi"]) == 130
    assert capsys.readouterr() == ("half\n", "qchat: interrupted\n")
    assert backend.closed
    assert run(["ask", "--json", "hi"]) == 130
    document = json.loads(capsys.readouterr().out)
    assert (document["answer"], document["finish_reason"]) == ("half", "cancelled")
    assert document["error"]["message"] == "interrupted"


def test_ctrl_c_before_the_reply_is_one_json_document_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_settings: Settings, _report: Any) -> FakeBackend:
        raise KeyboardInterrupt

    monkeypatch.setattr("app.cli.answer.open_backend", interrupted)
    assert run(["ask", "--json", "hi"]) == 130
    assert json.loads(capsys.readouterr().out)["error"]["message"] == "interrupted"


SCRIPT = """
import sys
import app.cli.answer
from app.backends.base import Answer
from tests.backends.fakes import FakeBackend
backend = FakeBackend(*[Answer("rocket 🚀 arrow → ✓ ")] * int(sys.argv[1]))
app.cli.answer.open_backend = lambda settings, report: backend
sys.argv = ["qchat", "ask", "hi"]
from app.cli import main
main()
"""


def process(count: int, **more: Any) -> subprocess.Popen[bytes]:
    """A real `qchat ask` whose answer is `count` pieces."""
    more["env"] = os.environ | more.get("env", {})
    command = [sys.executable, "-c", SCRIPT, str(count)]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, cwd=root, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, **more)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_output_is_utf8_whatever_the_locale_says(encoding: str) -> None:
    asked = process(1, stdout=subprocess.PIPE, env={"PYTHONIOENCODING": encoding, "LC_ALL": "C"})
    out, err = asked.communicate(timeout=60)
    assert (out.decode("utf-8"), err, asked.returncode) == ("rocket 🚀 arrow → ✓ \n", b"", 0)


def test_a_closed_pipe_ends_quietly() -> None:
    asked = process(100_000, stdout=subprocess.PIPE)
    assert asked.stdout is not None and asked.stderr is not None
    assert asked.stdout.read(6) == b"rocket"
    asked.stdout.close()
    assert asked.stderr.read() == b""
    assert asked.wait(timeout=60) == 0
