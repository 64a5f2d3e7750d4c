"""A reply and a transcript as plain lines."""

from __future__ import annotations

import pytest

from app.backends.base import Answer, Event, Generated, Notice, Thinking, ToolCall
from app.chat.conversation import Conversation, Message, new_message
from app.chat.session import Added, Finished
from app.errors import BackendError
from app.ui.plain import PlainOutput
from app.ui.repl import show
from app.ui.repl.show import ReplyView, branch, transcript

QUESTION = new_message(None, "user", "hi")


def shown(
    capsys: pytest.CaptureFixture[str],
    *events: Event,
    thinking: bool = False,
    state: str = "stop",
    error: BackendError | None = None,
) -> tuple[str, list[str]]:
    """stdout, and the lines of stderr."""
    view = ReplyView(PlainOutput(show_thinking=True), thinking)
    for event in (Added(QUESTION), *events):
        view.show(event)
    view.show(Finished(new_message(QUESTION.id, "assistant", "", state=state), error))
    out, err = capsys.readouterr()
    return out, err.splitlines()


def test_hidden_thinking_is_two_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 112.4])
    monkeypatch.setattr("app.ui.repl.show.time.monotonic", lambda: next(times))
    events = (Generated(1), Thinking("let me "), Thinking("see"), Generated(1340), Answer("a"), Answer("b"))
    assert shown(capsys, *events) == ("ab\n", ["thinking…", "thought for 12 s, 1,340 tokens"])


def test_thinking_that_is_shown_stands_between_them(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shown(capsys, Thinking("let me "), Thinking("see"), Answer("a"), thinking=True)
    assert (out, err) == ("a\n", ["thinking…", "let me see", "thought for 0 s"])


@pytest.mark.parametrize("thinking", [True, False])
def test_an_empty_block_of_thinking_is_not_shown(capsys: pytest.CaptureFixture[str], thinking: bool) -> None:
    """C05: an empty pane stayed on the screen."""
    assert shown(capsys, Thinking("\n\n"), Answer("Hi"), thinking=thinking) == ("Hi\n", [])


def test_thinking_that_ends_with_the_reply_or_a_call_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, Thinking("hm"), state="length")[1] == ["thinking…", "thought for 0 s"]
    call = ToolCall("f", {}, "<call>")
    assert shown(capsys, Thinking("hm"), call, Answer("a"))[1] == ["thinking…", "thought for 0 s", "<call>"]


def test_notices_errors_and_a_stop_are_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    error = BackendError("the server is down", "start it")
    out, err = shown(capsys, Notice("careful"), Answer("half"), state="error", error=error)
    assert (out, err) == ("half\n", ["qchat: careful", "qchat: the server is down", "  start it"])
    assert shown(capsys, Answer("half"), state="cancelled")[1] == ["qchat: stopped; what was said is kept"]


def messages() -> tuple[Conversation, list[Message]]:
    """A question with two replies, the second of which was followed by another question."""
    first = new_message(None, "user", "one\ntwo")
    timing = {"thinking_s": 12.4, "thinking_tokens": 340}
    call = ToolCall("f", {}, "<call>")
    a = new_message(first.id, "assistant", "a", state="cancelled")
    b = new_message(first.id, "assistant", "b\nc", thinking="hm", timing=timing, tool_calls=(call,), notices=("note",))
    last = new_message(b.id, "user", "more")
    return Conversation([first, a, b, last]), [first, a, b, last]


def test_a_transcript_tells_who_what_which_branch_and_how_it_ended() -> None:
    conversation, (_, a, b, _) = messages()
    begin = ["> one", "  two"]
    end = ["[branch 2/2]", "[thought for 12 s, 340 tokens]", "b", "c", "<call>", "[note]", "> more"]
    assert list(transcript(conversation)) == begin + end
    assert list(transcript(conversation, start=b.id)) == end
    conversation.go_to(a.id)
    assert list(transcript(conversation)) == [*begin, "[branch 1/2]", "a", "[stopped]"]
    assert branch(conversation, a.id) == "branch 1/2"


def test_a_long_chat_shows_its_end_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "MOST_SHOWN", 1)
    conversation, _ = messages()
    assert list(transcript(conversation)) == ["[2 earlier messages are not shown; /export writes them all]", "> more"]
