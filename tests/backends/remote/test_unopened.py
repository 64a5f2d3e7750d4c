"""A person is told of thinking that came as answer, and not of an answer that speaks of tags."""

from __future__ import annotations

from typing import Any

import pytest

from app.backends.base import Answer, Event, Notice, Thinking, ToolCall
from app.backends.remote.unopened import Unopened
from tests.backends.ollama.asking import ask
from tests.backends.ollama.server import FakeOllama, last, line, serving
from tests.backends.openai.replies import SERVER, read_documents
from tests.backends.remote.scripted_server import delta
from tests.home import qchat_home

__all__ = ["qchat_home"]

CALL = ToolCall("f", {}, "")
FROM_A_TEMPLATE = "Let me see.\n\nIt is 4.\n</think>\n\nIt is 4."


def told(*events: Event) -> list[str]:
    unopened = Unopened()
    for event in events:
        unopened.see(event)
    return [notice.text for notice in unopened.notices(SERVER)]


@pytest.mark.parametrize(
    ("events", "is_told"),
    [
        ([Answer(FROM_A_TEMPLATE)], True),
        ([Answer("hm\n</think>")], True),  # and then the limit came
        ([Answer("hm\n</think>\n"), CALL], True),
        ([Answer("hm\n </think> \r\n4")], True),
        ([Answer("hm\n</think>\n<think>\nagain")], True),
        ([Answer("</think>\n4")], False),  # nothing stands before it
        ([Answer("\n</think>\n4")], False),
        ([Answer("It ends with </think>\n")], False),
        ([Answer("The end is\n</think> on a line\n")], False),
        ([Answer("hm\n" + 70 * " " + "x</think>\n")], False),
        ([Answer("So:\n<think>\nhm\n</think>\n4")], False),
        ([Answer(99 * "x" + "<think>\nhm\n</think>\n4")], False),
        ([Thinking("hm"), Answer("4\n</think>\n")], False),
        ([Answer("4\n"), CALL, Answer("x\n</think>\n")], False),
        ([Notice("a\n</think>\n"), Answer("4")], False),
    ],
)
def test_an_end_on_a_line_of_its_own_that_nothing_opened_is_told(events: list[Event], is_told: bool) -> None:
    cut = [Answer(c) for each in events if isinstance(each, Answer) for c in each.text]  # in the smallest pieces
    for pieces in (events, cut if all(isinstance(each, Answer) for each in events) else events):
        notices = told(*pieces)
        assert len(notices) == is_told
        assert all("box sent it as answer" in notice and "docs/remote.md" in notice for notice in notices)


@pytest.mark.usefixtures("qchat_home")
def test_the_reply_stays_as_it_was_shown_whatever_the_server_speaks() -> None:
    pieces = [FROM_A_TEMPLATE[i : i + 5] for i in range(0, len(FROM_A_TEMPLATE), 5)]
    heard = read_documents(*(delta(content=piece) for piece in pieces), delta(finish_reason="stop"))
    assert (heard.thinking, heard.answer) == ("", FROM_A_TEMPLATE)
    assert "box sent it as answer" in heard.notices
    script: list[Any] = [*(line({"content": piece}) for piece in pieces), last()]
    with serving(FakeOllama(script=script)) as fake:
        asked = ask(fake)
    assert (asked.reply.thinking, asked.reply.answer) == ("", FROM_A_TEMPLATE)
    assert any("sent it as answer" in notice for notice in asked.notices)
