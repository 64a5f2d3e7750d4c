"""HTTP to one server: what is sent again and what is not, what a person is told, and where a key goes."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest

from app.backends.remote import http
from app.backends.remote.http import ServerClient
from app.backends.remote.retry import asked_pause, pause_before
from app.backends.remote.server import ServerSettings
from app.backends.remote.url import parse_url
from app.errors import BackendError, BackendTimeoutError, QChatError, SettingsError
from app.settings import Secret
from tests.backends.remote.scripted_server import Connection, ScriptedServer, response

KEY = "sk-0123456789"
OK = response("fine")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "pause_before", lambda _asked, _tried: 0.0)
    monkeypatch.setattr(http, "LOST_PAUSE_S", 0.0)


def settings(url: str, **fields: Any) -> ServerSettings:
    return ServerSettings("box", "openai", url, **{"key": Secret(KEY), **fields})


def get(server: ServerSettings, times: int = 1) -> bytes:
    """The last of so many answers."""

    async def getting() -> bytes:
        client = ServerClient(server, parse_url(server.url))
        try:
            for _ in range(times):
                answer = await client.get("/models")
            return answer
        finally:
            await client.close()

    return asyncio.run(getting())


def refusal(server: ServerSettings) -> QChatError:
    with pytest.raises(QChatError) as caught:
        get(server)
    assert KEY not in f"{caught.value!r} {caught.value.message} {caught.value.hint}"
    return caught.value


# What comes back


@pytest.mark.parametrize(
    ("status", "body", "message", "hint"),
    [
        ("401 Unauthorized", '{"error": {"message": "bad key"}}', "401 Unauthorized: bad key", "login box"),
        ("403 Forbidden", "", "403 Forbidden", "login box"),
        ("404 Not Found", '{"error": {"message": "no model x"}}', "no model x", "name of the model"),
        ("404 Not Found", "page not found", "404 Not Found for http://HOST/models", "http://HOST/v1"),
        ("400 Bad Request", '{"detail": [{"loc": ["body", "n"], "msg": "no number"}]}', "body.n: no number", ""),
        ("400 Bad Request", '{"message": "vllm said no", "object": "error"}', "vllm said no", ""),
        ("418 ", "short\x1b[2J and\nstout", "418 I'm a Teapot: short\\x1b[2J and stout", ""),
        ("500 Oh", '{"error": "boom"}', "500 Internal Server Error: boom", "later"),
        ("500 Oh", "<html><title>nginx</title></html>", "a web page, 'nginx'", "later"),
        ("500 Oh", "", "box answered 500 Internal Server Error", "later"),
        ("599 Odd", "x" * 100_000, "xxx…", "later"),
        ("400 Bad Request", json.dumps({"error": {"message": f"the key {KEY} is odd"}}), "the key … is odd", ""),
    ],
)
def test_a_refusal_is_the_servers_own_words(status: str, body: str, message: str, hint: str) -> None:
    with ScriptedServer(response(body, status, "text/html")) as server:
        error = refusal(settings(server.url))
        assert message.replace("HOST", server.host) in error.message
        assert hint.replace("HOST", server.host) in (error.hint or "")
        assert len(server.asked) == 1
        assert error.exit_code == 3


def test_an_address_that_has_v1_is_tried_without() -> None:
    with ScriptedServer(response("nothing here", "404 Not Found", "text/plain")) as server:
        error = refusal(settings(f"{server.url}/v1"))
        assert error.hint is not None
        assert f'"{server.url}"' in error.hint


# What is sent again


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("status", ["429 Too Many Requests", "502 Bad Gateway", "503 Service Unavailable"])
def test_a_busy_server_is_asked_three_times_and_no_more(status: str) -> None:
    busy = response("busy", status, "text/plain")
    with ScriptedServer(busy, busy, OK) as server:
        assert get(settings(server.url)) == b"fine"
        assert len(server.asked) == 3
    with ScriptedServer(busy) as server:
        assert status in refusal(settings(server.url)).message
        assert len(server.asked) == 3


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "408 Request Timeout", "500 X", "504 X"])
def test_other_failures_are_final(status: str) -> None:
    with ScriptedServer(response("no", status, "text/plain"), OK) as server:
        refusal(settings(server.url))
        assert len(server.asked) == 1


def test_a_server_says_how_long_to_wait() -> None:
    busy = response("busy", "429 Too Many Requests", "text/plain", Retry_After="0")
    pauses: list[tuple[str, float]] = []

    async def getting(url: str) -> None:
        client = ServerClient(settings(url), parse_url(url))
        async with client.stream("GET", "/x", on_pause=lambda why, seconds: pauses.append((why, seconds))):
            await client.close()

    with ScriptedServer(busy, OK) as server:
        asyncio.run(getting(server.url))
    assert pauses == [("busy (429)", 0.0)]
    patient = response("busy", "429 Too Many Requests", "text/plain", Retry_After="3600")
    with ScriptedServer(patient, OK) as server:
        assert "3,600 s" in (refusal(settings(server.url)).hint or "")
        assert len(server.asked) == 1


def test_pauses() -> None:
    assert [pause_before(None, tried) for tried in (1, 2)] == [0.5, 1.0]
    assert pause_before(7.0, 1) == 7.0
    assert [asked_pause(text) for text in ("", "soon", "2.5", "-1")] == [None, None, 2.5, 0.0]
    assert 50 < (asked_pause(formatdate(time.time() + 60, usegmt=True)) or 0) <= 61
    assert asked_pause(formatdate(0)) == 0.0


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.usefixtures("no_pauses")
def test_a_server_that_is_not_there_is_tried_twice() -> None:
    pauses: list[str] = []
    url = f"http://127.0.0.1:{closed_port()}"

    async def getting() -> None:
        client = ServerClient(settings(url), parse_url(url))
        async with client.stream("GET", "/x", on_pause=lambda why, _seconds: pauses.append(why)):
            pass

    with pytest.raises(BackendError, match=r"box cannot be reached at .*/x: Connection refused") as caught:
        asyncio.run(getting())
    assert pauses == ["no connection"]
    assert caught.value.exit_code == 3
    assert "running" in (caught.value.hint or "")


def test_a_name_that_nobody_knows() -> None:
    error = refusal(settings("http://nosuch.invalid"))
    assert "nosuch.invalid" in error.message
    assert error.exit_code == 3


def leave(connection: Connection) -> None:
    """End the connection without a word."""


def talk_nonsense(connection: Connection) -> None:
    connection.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")


@pytest.mark.usefixtures("no_pauses")
def test_a_kept_connection_that_the_server_closes_between_two_questions_is_made_anew() -> None:
    with ScriptedServer(OK, leave, OK) as server:
        assert get(settings(server.url), times=2) == b"fine"
        assert len(server.asked) == 3
    with ScriptedServer(leave) as server:
        assert "did not answer" in refusal(settings(server.url)).message
        assert len(server.asked) == 2  # once more, and no third time


def test_what_speaks_no_http_is_told() -> None:
    with ScriptedServer(talk_nonsense) as server:
        assert "did not answer" in refusal(settings(server.url)).message
        assert len(server.asked) == 1


def test_a_body_that_breaks_off_is_not_taken_for_the_whole() -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    with ScriptedServer(lambda connection: connection.send(cut)) as server:
        assert get(settings(server.url)) == b"half"  # whoever reads it sees that it is no whole document
        assert len(server.asked) == 1


def test_a_body_that_cannot_be_unpacked_is_told() -> None:
    with ScriptedServer(response(b"no gzip at all", Content_Encoding="gzip")) as server:
        assert "cannot be unpacked" in refusal(settings(server.url)).message


def test_a_body_that_never_ends_is_left() -> None:
    def flood(connection: Connection) -> None:
        connection.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            connection.send(b"x" * (1 << 20))

    with ScriptedServer(flood) as server:
        assert "more than" in refusal(settings(server.url)).message


# Silence


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port on which a connection is neither made nor refused: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        yield port
        for each in waiting:
            each.close()


def test_a_connection_that_is_not_made_has_a_limit(full_port: int) -> None:
    error = refusal(settings(f"http://127.0.0.1:{full_port}", connect_s=0.1))
    assert isinstance(error, BackendTimeoutError)
    assert "within 0.1 s" in error.message
    assert error.exit_code == 4


def test_a_server_that_says_nothing_is_asked_once() -> None:
    with ScriptedServer(Connection.wait_until_left) as server:
        error = refusal(settings(server.url, connect_s=0.1, first_token_s=0.1))
        assert isinstance(error, BackendTimeoutError)
        assert server.connections[0].left.wait(60)
        assert len(server.asked) == 1


# Where a key goes


def test_a_key_goes_into_one_header_and_is_seen_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    server_headers = {"X-Team": Secret("blue-team-secret")}
    with caplog.at_level(logging.DEBUG), ScriptedServer(OK) as server:
        mine = settings(f"{server.url}/v1?key=query-secret", headers=server_headers)
        get(mine)
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
        assert server.asked[0].headers["x-team"] == "blue-team-secret"
        assert server.asked[0].path == "/v1/models?key=query-secret"
        assert server.asked[0].headers["user-agent"].startswith("qchat/")
    seen = f"{caplog.text} {mine!r} {mine.key!r} {mine.key}"
    for secret in (KEY, "blue-team-secret", "query-secret"):
        assert secret not in seen


def test_an_authorization_of_ones_own_stands() -> None:
    with ScriptedServer(OK) as server:
        get(settings(server.url, headers={"authorization": Secret("Basic abc")}))
        assert server.asked[0].headers["authorization"] == "Basic abc"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_a_redirect_is_told_and_not_followed(status: str) -> None:
    with ScriptedServer(OK) as other:
        moved = response("", status, Location=f"{other.url}/v1/models?token=secret-token")
        with ScriptedServer(moved) as server:
            error = refusal(settings(server.url))
            assert f"{other.url}/v1/models" in error.message
            assert "secret-token" not in error.message
        assert other.asked == []


@pytest.mark.parametrize("bad", ["a\r\nX-Evil: 1", "schlüssel", "a\x00"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(bad: str) -> None:
    for fields in ({"key": Secret(bad)}, {"headers": {"X-Team": Secret(bad)}}):
        with pytest.raises(SettingsError) as caught:
            ServerClient(settings("http://localhost:1", **fields), parse_url("http://localhost:1"))
        assert bad not in f"{caught.value.message} {caught.value.hint}"


# R08: proxies


@pytest.mark.parametrize("proxy", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_this_machine_is_reached_without_a_proxy(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(response("no", "502 Bad Gateway")) as proxy_server, ScriptedServer(OK) as server:
        monkeypatch.setenv(proxy, proxy_server.url)
        assert get(settings(server.url)) == b"fine"
        assert proxy_server.asked == []


def test_ipv6_loopback_is_this_machine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(OK, host="::1") as server:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        assert get(settings(server.url)) == b"fine"


def test_other_servers_are_reached_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(OK) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert get(settings("http://box.invalid:8000/v1")) == b"fine"
        assert proxy.asked[0].path == "http://box.invalid:8000/v1/models"
        monkeypatch.setenv("NO_PROXY", "other.invalid,box.invalid")
        assert "box.invalid" in refusal(settings("http://box.invalid:8000/v1")).message
        assert len(proxy.asked) == 1


@pytest.mark.parametrize("bad", ["socks5h://127.0.0.1:1", "gopher://127.0.0.1:1", "http://[::1", "socks9://me:pass@h"])
def test_a_proxy_that_cannot_be_used_is_a_message_and_no_matter_to_this_machine(
    bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", bad)
    error = refusal(settings("http://box.invalid"))
    assert "proxy" in error.message
    assert "ALL_PROXY" in (error.hint or "")
    assert "pass" not in error.message.replace("passed", "")
    with ScriptedServer(OK) as server:
        assert get(settings(server.url)) == b"fine"
