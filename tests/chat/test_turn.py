"""A turn: one question to one finished reply, with what was said kept however it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.backends.base import Answer, ChatRequest, Event, Notice, Progress, Thinking, ToolCall
from app.backends.usage import Usage
from app.chat.turn import Reply, Turn
from app.errors import BackendError
from tests.backends.fakes import UNSET, FakeBackend

REQUEST = ChatRequest(messages=[{"role": "user", "content": "hi"}], sampling=UNSET, max_tokens=10)
CALL = ToolCall("f", {"a": 1}, "<tool_call>...</tool_call>")


def run(backend: FakeBackend, on_event: Any = lambda _: None) -> Reply:
    return asyncio.run(Turn(backend, REQUEST, on_event).run())


def test_a_reply_gathers_every_event_and_passes_each_on() -> None:
    events = [Progress("reading", 1, 2), Thinking("h"), Thinking("m"), Answer("a"), Notice("n"), Answer("b"), CALL]
    shown: list[Event] = []
    usage = Usage(prompt_tokens=7)
    backend = FakeBackend(*events, usage=usage)
    reply = run(backend, shown.append)
    assert reply == Reply("hm", "ab", (CALL,), ("n",), "stop", usage, [1, 2, 3], [4, 5])
    assert shown[:-1] == events
    assert backend.requests == [REQUEST]
    assert backend.closed_chats == 1


@pytest.mark.parametrize(
    ("events", "reason", "words", "cut_off"),
    [
        ([Thinking("hm")], "length", "still thinking", True),
        ([], "length", "no answer", True),
        ([Answer("half")], "length", "cut off", False),
        ([CALL], "length", "cut off", False),
        ([Thinking("hm")], "stop", "empty", False),
        ([Answer("fine")], "stop", None, False),
        ([CALL], "stop", None, False),
    ],
)
def test_an_end_that_a_person_should_know_of_is_said(
    events: list[Event], reason: Any, words: str | None, cut_off: bool
) -> None:
    shown: list[Event] = []
    reply = run(FakeBackend(*events, reason=reason), shown.append)
    assert len(reply.notices) == (0 if words is None else 1)
    if words is not None:
        assert words in reply.notices[0]
        assert shown[-1] == Notice(reply.notices[0])
    assert reply.cut_off_without_answer is cut_off


def test_a_failure_is_raised_and_what_was_said_is_kept() -> None:
    turn = Turn(FakeBackend(Answer("half"), BackendError("gone")), REQUEST, lambda _: None)
    with pytest.raises(BackendError, match="gone"):
        asyncio.run(turn.run())
    assert (turn.reply.answer, turn.reply.finish_reason) == ("half", "error")


def test_cancelling_closes_the_chat_and_keeps_what_was_said() -> None:
    backend = FakeBackend(Answer("half"), endless=True)

    async def cancelled() -> Reply:
        turn = Turn(backend, REQUEST, lambda _: task.cancel())
        task = asyncio.ensure_future(turn.run())
        with pytest.raises(asyncio.CancelledError):
            await task
        return turn.reply

    reply = asyncio.run(cancelled())
    assert (reply.answer, reply.finish_reason) == ("half", "cancelled")
    assert backend.closed_chats == 1


def test_a_reader_that_fails_stops_the_backend() -> None:
    def closed_pipe(_event: Event) -> None:
        raise BrokenPipeError

    backend = FakeBackend(Answer("a"), Answer("b"), endless=True)
    with pytest.raises(BrokenPipeError):
        run(backend, closed_pipe)
    assert backend.closed_chats == 1
