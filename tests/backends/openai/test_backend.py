"""The backend against a server that misbehaves: addresses, refusals, cuts, silence, cancelling, and what is logged."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from app.backends.base import Answer, ChatRequest, Progress
from app.backends.openai import stream as stream_module
from app.backends.openai.backend import OpenAIBackend, open_openai
from app.backends.remote.server import ServerSettings
from app.errors import BackendError, BackendTimeoutError, SettingsError, UsageError
from app.settings import Secret, ServerTable, Settings, load_settings
from tests.backends.openai.replies import REQUEST, Heard, ask, hear
from tests.backends.remote.scripted_server import (
    HELLO,
    PATIENCE_S,
    Connection,
    ScriptedServer,
    delta,
    events,
    response,
    stream,
)

ANSWER = stream(events(HELLO))
KEY = "sk-0123456789"
PROMPT = "my own private prompt about herons"
PRIVATE = ChatRequest(
    [{"role": "system", "content": "sys-secret"}, {"role": "user", "content": PROMPT}], REQUEST.sampling, 9
)


def settings(url: str, **fields: Any) -> ServerSettings:
    return ServerSettings("box", "openai", url, **{"model": "m", **fields})


def talk(*scripts: Any, request: ChatRequest = REQUEST, **fields: Any) -> tuple[Heard, ScriptedServer]:
    """One question to a server with these scripts."""
    with ScriptedServer(*scripts) as server:
        return ask(settings(server.url, **fields), request), server


# R06: addresses


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("http://HOST", "/v1/chat/completions"),
        ("http://HOST/", "/v1/chat/completions"),
        ("http://HOST/v1", "/v1/chat/completions"),
        ("http://HOST/v1/", "/v1/chat/completions"),
        ("http://HOST//v1//", "/v1/chat/completions"),
        ("http://HOST/api/v1", "/api/v1/chat/completions"),
        ("http://HOST/v1beta/openai/", "/v1beta/openai/chat/completions"),
        ("http://HOST/v1/chat/completions", "/v1/chat/completions"),
        ("http://HOST/v1/models", "/v1/chat/completions"),
        ("HOST", "/v1/chat/completions"),
        ("  http://HOST/v1 ", "/v1/chat/completions"),
        ("http://HOST?key=1", "/v1/chat/completions?key=1"),
        ("http://HOST/v1/?key=1", "/v1/chat/completions?key=1"),
    ],
)
def test_an_address_as_people_write_it(written: str, path: str) -> None:
    with ScriptedServer(ANSWER) as server:
        heard = ask(settings(written.replace("HOST", server.host)))
        assert heard.answer == "Hello."
        assert (server.asked[0].method, server.asked[0].path) == ("POST", path)


@pytest.mark.parametrize("written", ["", "no address", "ftp://h", "http://"])
def test_no_address_is_told_before_anything_is_asked(written: str) -> None:
    with pytest.raises(SettingsError):
        OpenAIBackend(settings(written))


# Models


@pytest.mark.parametrize(
    "document",
    [
        {"object": "list", "data": [{"id": "a", "object": "model"}, {"id": "b/c"}, {"no": "id"}, 7]},
        {"models": [{"name": "a"}, {"name": "b/c"}]},
        [{"id": "a"}, {"id": "b/c"}],
        {"data": ["a", "", "b/c"]},
    ],
)
def test_models_are_listed(document: Any) -> None:
    async def listing(url: str) -> list[str]:
        backend = OpenAIBackend(settings(url))
        return list(await backend.models())

    with ScriptedServer(response(json.dumps(document))) as server:
        assert asyncio.run(listing(server.url)) == ["a", "b/c"]
        assert server.asked[0].path == "/v1/models"


def test_no_half_of_a_pair_is_in_the_name_of_a_model() -> None:
    with ScriptedServer(response(r'[{"id": "a\ud83d"}]')) as server:
        assert open_openai(configured(server.url), lambda _: None).model == "a�"


@pytest.mark.parametrize("body", ["<html><title>Welcome</title></html>", "{}", "null", "[[[", '{"data": 7}'])
def test_what_is_no_list_of_models_is_told(body: str) -> None:
    async def listing(url: str) -> None:
        await OpenAIBackend(settings(url)).models()

    with ScriptedServer(response(body)) as server, pytest.raises(BackendError, match="no list of models") as caught:
        asyncio.run(listing(server.url))
    assert "Welcome" in caught.value.message or "<" not in body


def configured(url: str, model: str = "") -> Settings:
    return replace(load_settings(), backend="box", model=model, servers={"box": ServerTable("box", url=url)})


def test_the_only_model_of_a_server_answers_where_none_is_named() -> None:
    with ScriptedServer(response('{"data": [{"id": "one"}]}')) as server:
        assert open_openai(configured(server.url), lambda _: None).model == "one"
        assert open_openai(configured(server.url, "mine"), lambda _: None).model == "mine"
        assert len(server.asked) == 1  # a name is taken as it is


def test_of_several_models_one_must_be_named() -> None:
    names = [f"m\x1b{i}" for i in range(20)]

    def listing(connection: Connection) -> None:
        connection.send(response(json.dumps(names)))
        connection.wait_until_left()

    with ScriptedServer(listing) as server, pytest.raises(UsageError, match="20 models") as caught:
        open_openai(configured(server.url), lambda _: None)
    assert server.connections[0].left.wait(PATIENCE_S)
    assert caught.value.hint == ", ".join(rf"m\x1b{i}" for i in range(12)) + " and 8 more"
    with ScriptedServer(response('{"data": []}')) as server, pytest.raises(BackendError, match="offers no model"):
        open_openai(configured(server.url), lambda _: None)


# How a stream comes


def by_byte(connection: Connection) -> None:
    for i in range(len(ANSWER)):
        connection.send(ANSWER[i : i + 1])


def chunked(connection: Connection) -> None:
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for piece in [events([document], done=False) for document in HELLO] + [events([])]:
        connection.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
    connection.send(b"0\r\n\r\n")


def without_done(connection: Connection) -> None:
    connection.send(stream(events(HELLO, done=False)))


def left_open(connection: Connection) -> None:
    connection.send(ANSWER)
    connection.wait_until_left()


def left_open_without_done(connection: Connection) -> None:
    connection.send(stream(events(HELLO[:-1], done=False)))
    connection.wait_until_left()


def as_text(connection: Connection) -> None:
    connection.send(ANSWER.replace(b"text/event-stream", b"text/plain"))


def cut_after_the_reason(connection: Connection) -> None:
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = events(HELLO[:-1], done=False)
    connection.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")


@pytest.mark.parametrize(
    "script",
    [by_byte, chunked, without_done, left_open, left_open_without_done, as_text, cut_after_the_reason],
    ids=lambda script: script.__name__,
)
def test_a_whole_reply_however_it_is_sent(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "AFTER_END_S", 0.1)
    heard, _ = talk(script)
    assert heard.answer == "Hello."
    assert heard.error is None
    assert heard.done
    assert heard.done.usage.first_token_s is not None


def test_a_connection_serves_the_next_question_too() -> None:
    async def twice(url: str) -> None:
        backend = OpenAIBackend(settings(url))
        assert (await hear(backend)).answer == (await hear(backend)).answer == "Hello."
        await backend.close()

    body = events(HELLO)
    with ScriptedServer(response(body, content_type="text/event-stream")) as server:
        asyncio.run(twice(server.url))
        assert server.connections[0].socket is server.connections[1].socket


# R04, R08: failures under way


def broken_after_two(connection: Connection) -> None:
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = events(HELLO[:3], done=False)
    connection.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")


def error_after_two(connection: Connection) -> None:
    connection.send(stream(events([*HELLO[:3], {"error": {"message": "out of memory", "code": 500}}], done=False)))


@pytest.mark.parametrize("script", [broken_after_two, error_after_two])
def test_what_came_is_kept_and_the_question_is_not_sent_again(script: Any) -> None:
    heard, server = talk(script, ANSWER)
    assert heard.answer == "Hello."
    assert isinstance(heard.error, BackendError)
    assert heard.error.exit_code == 3
    assert "what came is kept" in (heard.error.hint or "")
    assert len(server.asked) == 1


def test_silence_under_way_keeps_what_came() -> None:
    def stuck(connection: Connection) -> None:
        connection.send(stream(events(HELLO[:3], done=False)))
        connection.wait_until_left()

    heard, server = talk(stuck, ANSWER, idle_s=0.2)
    assert heard.answer == "Hello."
    assert isinstance(heard.error, BackendTimeoutError)
    assert heard.error.exit_code == 4
    assert server.connections[0].left.wait(60)
    assert len(server.asked) == 1


def test_after_a_failure_the_next_question_is_answered() -> None:
    async def twice(url: str) -> None:
        backend = OpenAIBackend(settings(url))
        assert (await hear(backend)).error is not None
        assert (await hear(backend)).answer == "Hello."
        await backend.close()

    with ScriptedServer(error_after_two, ANSWER) as server:
        asyncio.run(twice(server.url))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (response("<html><title>Log in</title></html>", content_type="text/html"), "a web page, 'Log in'"),
        (response("", content_type="text/event-stream"), "without a reply"),
        (response('{"error": "no GPU"}'), "no GPU"),
        (response("over", "503 Unavailable", Retry_After="100"), "503"),
        (response('{"error": {"message": "bad key"}}', "401 Unauthorized"), "401 Unauthorized: bad key"),
        (response("", "301 Moved", Location="https://other.example/v1/chat/completions?k=1"), "other.example/v1"),
        (stream(b"data: " + b"x" * (9 << 20)), "line of more than 8 MB"),
    ],
    ids=["page", "nothing", "error", "busy", "key", "redirect", "endless"],
)
def test_what_is_no_reply(script: bytes, words: str) -> None:
    heard, server = talk(script)
    assert heard.error is not None
    assert words in heard.error.message
    assert heard.events == []
    assert len(server.asked) == 1


# What a strict server refuses


def test_refused_fields_are_left_out_once_told_and_not_tried_again() -> None:
    refusals = [
        response(json.dumps({"error": {"message": f"Unknown parameter: '{field}'"}}), "400 Bad Request")
        for field in ("chat_template_kwargs", "stream_options")
    ]
    request = replace(REQUEST, thinking=False)

    async def twice(url: str) -> tuple[Heard, Heard]:
        backend = OpenAIBackend(settings(url))
        return await hear(backend, request), await hear(backend, request)

    with ScriptedServer(*refusals, ANSWER) as server:
        first, second = asyncio.run(twice(server.url))
        assert first.answer == second.answer == "Hello."
        assert "no thinking switch" in first.notices
        assert "no thinking switch" in second.notices
        assert len(server.asked) == 4
        assert not {"chat_template_kwargs", "stream_options"} & server.asked[3].json.keys()


def test_a_limit_that_does_not_fit_is_left_out_for_this_question_alone() -> None:
    refusal = {"message": "maximum context length is 50 tokens. However, you requested 107 tokens", "object": "error"}

    async def twice(url: str) -> None:
        backend = OpenAIBackend(settings(url))
        heard = await hear(backend)
        assert (heard.answer, "no room for a reply of 100 tokens" in heard.notices) == ("Hello.", True)
        await hear(backend)

    with ScriptedServer(response(json.dumps(refusal), "400 Bad Request"), ANSWER) as server:
        asyncio.run(twice(server.url))
        assert ["max_tokens" in asked.json for asked in server.asked] == [True, False, True]


def test_own_fields_and_headers_go_along() -> None:
    _, server = talk(ANSWER, body={"top_k": 5, "cache": {"a": 1}}, headers={"X-Team": Secret("blue")}, key=Secret(KEY))
    assert (server.asked[0].json["top_k"], server.asked[0].json["cache"]) == (5, {"a": 1})
    assert server.asked[0].headers["x-team"] == "blue"
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


# Cancelling


@pytest.mark.parametrize("begun", [False, True])
def test_closing_ends_the_connection_at_once(begun: bool) -> None:
    def wait(connection: Connection) -> None:
        if begun:
            connection.send(stream(events(HELLO[:2], done=False)))
        connection.wait_until_left()

    async def leave(server: ScriptedServer) -> None:
        backend = OpenAIBackend(settings(server.url))
        chat = backend.chat(REQUEST)
        event = await anext(chat)
        assert event == Answer("Hel") if begun else isinstance(event, Progress)
        await chat.aclose()
        assert await asyncio.to_thread(server.connections[0].left.wait, 60)
        await backend.close()

    with ScriptedServer(wait) as server:
        asyncio.run(leave(server))


def test_two_replies_at_once() -> None:
    def long(connection: Connection) -> None:
        connection.send(stream(events([delta(content=str(i)) for i in range(500)])))

    async def both(url: str) -> list[Heard]:
        backend = OpenAIBackend(settings(url))
        return await asyncio.gather(hear(backend), hear(backend))

    with ScriptedServer(long) as server:
        first, second = asyncio.run(both(server.url))
    assert first.answer == second.answer == "".join(map(str, range(500)))


# What is logged


def test_no_key_and_no_prompt_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    noisy = stream(b": ping\n\ndata: nonsense " + PROMPT.encode() + b"\n\n" + events(HELLO))
    for level in (logging.WARNING, logging.DEBUG):
        caplog.clear()
        with caplog.at_level(level):
            heard, _ = talk(noisy, request=PRIVATE, key=Secret(KEY))
            talk(response(f"what is {PROMPT}? {KEY}", "400 Bad Request"), request=PRIVATE, key=Secret(KEY))
        assert heard.answer == "Hello."
        assert KEY not in caplog.text
        assert PROMPT not in caplog.text
        assert "sys-secret" not in caplog.text
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        talk(noisy, request=PRIVATE)
        assert [record.getMessage() for record in caplog.records] == ["box: 1 events were no JSON and were skipped"]


@pytest.mark.parametrize(
    "words",
    [
        f"cannot parse: {PROMPT}",
        f"input_value={{'content': '{PROMPT[:30]}...",
        "system was sys-secret",
        f"too long: {PROMPT[4:]}",
    ],
)
def test_an_error_does_not_repeat_the_conversation(words: str) -> None:
    under_way = stream(events([HELLO[1], {"error": words}]))
    for script in (response(json.dumps({"error": words}), "400 Bad Request"), under_way):
        heard, _ = talk(script, request=PRIVATE)
        assert heard.error is not None
        assert "…" in heard.error.message
        for private in ("private prompt about", "sys-secret"):
            assert private not in f"{heard.error.message} {heard.error!r} {heard.error}"
