"""`qchat ask` with a server behind it: what comes out, exit codes, and that neither keys nor chats reach the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.backends.openai import stream as stream_module
from app.cli import run
from tests.backends.remote.scripted_server import HELLO, Connection, ScriptedServer, delta, events, response, stream

KEY = "sk-0123456789"
PROMPT = "my own private prompt about herons"
ANSWER = stream(events([delta(reasoning_content="hm"), *HELLO]))


@pytest.fixture(autouse=True)
def no_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)


def ask(home: Path, url: str, *options: str, **timeouts: float) -> int:
    """Ask the server `box` at `url`, whose key is in the config file."""
    table = {"kind": "openai", "url": url, "model": "m", "key": KEY, **timeouts}
    home.mkdir(mode=0o700, exist_ok=True)
    config = home / "config.toml"
    config.write_text("[servers.box]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items()))
    config.chmod(0o600)
    return run(["ask", "--backend", "box", *options, PROMPT])


def logged(home: Path) -> str:
    log = home / "logs" / "qchat.log"
    return log.read_text() if log.exists() else ""


def test_an_answer_and_its_figures(qchat_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(ANSWER) as server:
        assert ask(qchat_home, server.url, "--stats", "--show-thinking", "--temp", "0") == 0
        assert server.asked[0].json["temperature"] == 0
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
        out, err = capsys.readouterr()
        assert out == "Hello.\n"
        assert err.startswith("hm\n")
        assert "prompt  7 tokens\nreply   3 tokens; " in err
        assert f"server  {server.url}/v1" in err


def test_json_has_null_for_what_the_server_does_not_say(qchat_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(stream(events(HELLO[:-1]))) as server:
        assert ask(qchat_home, server.url, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["answer"], document["finish_reason"], document["backend"]) == ("Hello.", "stop", "box")
    assert document["usage"]["generated_tokens"] is None
    assert document["usage"]["first_token_s"] > 0


def stuck(connection: Connection) -> None:
    connection.send(stream(events(HELLO[:2], done=False)))
    connection.wait_until_left()


# L04, R04, R08
@pytest.mark.parametrize(
    ("script", "code", "printed"),
    [
        (response('{"error": {"message": "bad key"}}', "401 Unauthorized"), 3, ""),
        (response("gone", "404 Not Found", "text/plain"), 3, ""),
        (response("", "500 Oh"), 3, ""),
        (stream(events([*HELLO[:3], {"error": "over"}])), 3, "Hello.\n"),
        (stream(events(HELLO[:3], done=False)), 3, "Hello.\n"),
        (stuck, 4, "Hel\n"),
        (response(json.dumps({"error": {"message": "maximum context length is 5 tokens", "n_ctx": 5,
                                        "n_prompt_tokens": 9}}), "400 Bad Request"), 1, ""),
    ],
    ids=["key", "path", "failed", "error", "cut", "silent", "long"],
)  # fmt: skip
@pytest.mark.parametrize("as_json", [False, True])
def test_failures(
    script: Any, code: int, printed: str, as_json: bool, qchat_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedServer(script) as server:
        assert ask(qchat_home, server.url, *(["--json"] if as_json else []), idle_timeout=0.2) == code
    out, err = capsys.readouterr()
    if as_json:
        assert json.loads(out)["error"]["message"] in err
    else:
        assert out == printed
    assert "Traceback" not in err
    assert "box" in err or code == 1
    assert KEY not in out + err + logged(qchat_home)
    assert PROMPT not in out + err + logged(qchat_home)


def test_a_server_that_is_not_there(qchat_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(ANSWER) as server:
        url = server.url
    assert ask(qchat_home, url) == 3
    err = capsys.readouterr().err
    assert err.splitlines() == [
        f"qchat: box cannot be reached at {url}/v1/chat/completions: Connection refused",
        "  is the server running, and the address right?",
    ]


@pytest.mark.parametrize("debug", ["", "1"])
def test_the_log_has_a_line_for_a_strange_stream_and_no_key_or_prompt(
    debug: str, qchat_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QCHAT_DEBUG", debug)
    strange = stream(f"data: nonsense {PROMPT} {KEY}\n\n".encode() + events(HELLO))
    echo = response(json.dumps({"error": {"message": f"cannot read {PROMPT!r} with {KEY}"}}), "400 Bad Request")
    with ScriptedServer(strange, echo) as server:
        assert ask(qchat_home, server.url) == 0
        assert "WARNING box: 1 events were no JSON and were skipped\n" in logged(qchat_home)
        assert ("DEBUG" in logged(qchat_home)) == bool(debug)
        assert ask(qchat_home, server.url) == 3
    out, err = capsys.readouterr()
    assert "cannot read '…' with …" in err
    for private in (KEY, PROMPT):
        assert private not in out + err + logged(qchat_home)


def test_a_server_that_forgets_to_end_is_not_waited_for(
    qchat_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(connection: Connection) -> None:
        connection.send(stream(events(HELLO[:-1], done=False)))
        connection.wait_until_left()

    monkeypatch.setattr(stream_module, "AFTER_END_S", 0.1)
    with ScriptedServer(forgetful) as server:
        assert ask(qchat_home, server.url) == 0
    assert capsys.readouterr().out == "Hello.\n"
