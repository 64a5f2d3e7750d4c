"""A chat: questions, replies, branches and what is saved of them, on scripted backends and a real store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.backends.base import Answer, Backend, Event, Generated, Notice, Progress, Thinking, ToolCall
from app.backends.usage import Usage
from app.chat.chats import Chats, export
from app.chat.conversation import Message
from app.chat.host import BackendHost, Report
from app.chat.saver import Saver
from app.chat.session import Added, Change, ChatSession, Finished
from app.chat.store import Store
from app.errors import BackendError, ModelNotFoundError, SettingsError, UsageError
from app.settings import Settings
from tests.backends.fakes import FakeBackend

CALL = ToolCall("f", {"a": 1}, "<tool_call>...</tool_call>")


def ignore(_: object) -> None:
    pass


def run(path: Path, work: Callable[[Saver, Chats], Awaitable[Any]], *backends: FakeBackend | Exception) -> Any:
    """`work` with a store in `path` and a host that opens `backends` in turn, the last one for ever."""
    opened = list(backends or [FakeBackend(Answer("yes"))])

    def open_backend(_settings: Settings, report: Report) -> Backend:
        report(Progress("loading the model", 1, 2))
        found = opened.pop(0) if len(opened) > 1 else opened[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def main() -> Any:
        saver = Saver(partial(Store.open, path / "sessions.db"), ignore)
        host = BackendHost(open_backend)
        try:
            return await work(saver, Chats(saver, host))
        finally:
            await host.close()
            assert await saver.close(5)

    return asyncio.run(main())


def saved(path: Path, session_id: str) -> list[Message]:
    store = Store.open(path / "sessions.db", ignore)
    try:
        return store.messages(session_id)
    finally:
        store.close()


def test_a_question_and_its_reply_are_shown_as_they_come_and_saved(tmp_path: Path) -> None:
    usage = Usage(prompt_tokens=9, generated_tokens=3, decode_s=0.5)
    backend = FakeBackend(Thinking("hm"), Generated(1), Answer("Hi"), Notice("n"), CALL, usage=usage)
    shown: list[Change] = []

    async def work(_: Saver, chats: Chats) -> ChatSession:
        chat = chats.new()
        await chat.ask("# Hello\nthere", shown.append)
        return chat

    chat = run(tmp_path, work, backend)
    question, reply = chat.conversation.path()
    assert (question.content, reply.content, reply.thinking, reply.tool_calls) == (
        "# Hello\nthere",
        "Hi",
        "hm",
        (CALL,),
    )
    assert (reply.state, reply.model, reply.notices) == ("stop", "fake:1b", ("n",))
    assert reply.timing["generated_tokens"] == 3 and reply.timing["thinking_tokens"] == 1
    assert chat.session.title == "Hello"
    assert [type(change) for change in shown] == [
        Added, Added, Progress, Thinking, Generated, Answer, Notice, ToolCall, type(backend._done), Finished
    ]  # fmt: skip
    assert saved(tmp_path, chat.session.id) == [question, reply]


def test_a_chat_keeps_the_model_that_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(_: Saver, chats: Chats) -> tuple[str, str]:
        chat = chats.new()
        await chat.ask("hi", ignore)
        monkeypatch.setenv("QCHAT_MODEL", "another")
        again = await chats.open(chat.session.id)
        return again.settings.model, chats.new().settings.model

    assert run(tmp_path, work) == ("smollm2:135m", "another")


def test_a_chat_goes_to_another_server_and_back(tmp_path: Path, qchat_home: Path) -> None:
    qchat_home.mkdir()
    (qchat_home / "config.toml").write_text('[servers.work]\nurl = "h:1"\nmodel = "big"\n[servers.home]\nurl = "h:2"\n')

    async def work(saver: Saver, chats: Chats) -> None:
        def now() -> tuple[str, str]:
            return chat.settings.backend, chat.settings.model

        chat = ChatSession(saver, BackendHost(), flags={"model": "work/a"})
        assert now() == ("work", "a")
        assert chat.settings_with({"model": "b"}).backend == "work"
        chat.change_settings({"model": "b"})  # another model of the same server
        assert now() == ("work", "b")
        assert chat.settings_with({"model": "home/x"}).model == "x" and now() == ("work", "b")
        chat.change_settings({"model": "home/org/x"})
        assert now() == ("home", "org/x")
        chat.change_settings({"sampling.top_k": 5})
        assert now() == ("home", "org/x")
        chat.change_settings({"model": "work/"})
        assert now() == ("work", "big")
        chat.change_settings({"model": "local/tiny"})
        assert now() == ("local", "tiny")
        assert dict(chat.session.settings) == {"model": "tiny", "backend": "local", "sampling.top_k": 5}

    run(tmp_path, work)


def test_cancelling_keeps_what_was_said(tmp_path: Path) -> None:
    backend = FakeBackend(Thinking("hm"), Answer("half"), endless=True)

    async def work(_: Saver, chats: Chats) -> ChatSession:
        chat = chats.new()
        said = asyncio.Event()
        task = asyncio.create_task(chat.ask("q", lambda change: said.set() if isinstance(change, Answer) else None))
        await said.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return chat

    chat = run(tmp_path, work, backend)
    reply = chat.conversation.path()[-1]
    assert (reply.content, reply.thinking, reply.state) == ("half", "hm", "cancelled")
    assert saved(tmp_path, chat.session.id)[-1] == reply
    assert backend.closed_chats == 1


@pytest.mark.parametrize("failing", ["opening", "answering"])
def test_a_failure_is_part_of_the_reply_and_the_next_question_is_answered(tmp_path: Path, failing: str) -> None:
    error = BackendError("no luck", "try again")
    broken = error if failing == "opening" else FakeBackend(Answer("ha"), error)

    async def work(_: Saver, chats: Chats) -> tuple[Message, Message]:
        chat = chats.new()
        failed = await chat.ask("q", ignore)
        chat.change_settings({"model": "other"})
        return failed, await chat.ask("again", ignore)

    failed, reply = run(tmp_path, work, broken, FakeBackend(Answer("yes")))
    assert failed.state == "error" and failed.notices == ("no luck", "try again")
    assert failed.content == ("" if failing == "opening" else "ha")
    assert (reply.content, reply.state) == ("yes", "stop")


def test_a_reply_is_saved_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.chat.growing_reply.SAVE_EVERY_S", 0.01)

    async def work(saver: Saver, chats: Chats) -> list[Message]:
        chat = chats.new()
        task = asyncio.create_task(chat.ask("q", ignore))
        found: list[Message] = []
        while not (found and found[-1].content):
            found = await saver.run(lambda store: store.messages(chat.session.id))
        task.cancel()
        await asyncio.wait([task])
        return found

    found = run(tmp_path, work, FakeBackend(Answer("half"), endless=True))
    assert (found[-1].content, found[-1].state) == ("half", "streaming")


def test_edit_and_regenerate_are_branches_and_lose_nothing(tmp_path: Path) -> None:
    async def work(_: Saver, chats: Chats) -> ChatSession:
        chat = chats.new()
        first = await chat.ask("one", ignore)
        await chat.regenerate(first.id, ignore)
        question = chat.conversation.path()[0]
        await chat.edit(question.id, "two", ignore)
        assert [m.content for m in chat.conversation.path()] == ["two", "yes"]
        assert chat.switch(chat.conversation.path()[0].id, -1)
        assert not chat.switch(chat.conversation.path()[0].id, -1)
        return chat

    chat = run(tmp_path, work)
    path = chat.conversation.path()
    assert [m.content for m in path] == ["one", "yes"]
    assert chat.conversation.siblings(path[1].id).index(path[1].id) == 1  # the newest reply
    again = run(tmp_path, lambda _, chats: chats.open(chat.session.id))
    assert again.conversation.path() == path  # the branch that was looked at last
    assert len(again.conversation) == 5


def test_a_fork_is_a_chat_of_its_own(tmp_path: Path) -> None:
    async def work(_: Saver, chats: Chats) -> tuple[ChatSession, ChatSession]:
        chat = chats.new({"system": "be kind"})
        reply = await chat.ask("one", ignore)
        await chat.ask("two", ignore)
        fork = chat.fork(reply.id)
        await fork.ask("three", ignore)
        return chat, await chats.open(fork.session.id)

    chat, fork = run(tmp_path, work)
    assert [m.content for m in fork.conversation.path()] == ["one", "yes", "three", "yes"]
    assert [m.content for m in chat.conversation.path()] == ["one", "yes", "two", "yes"]
    assert fork.session.id != chat.session.id and fork.settings.system == "be kind"
    assert not {m.id for m in fork.conversation.messages()} & {m.id for m in chat.conversation.messages()}


def test_settings_of_a_chat_are_checked_kept_and_given_back(tmp_path: Path) -> None:
    async def work(_: Saver, chats: Chats) -> ChatSession:
        chat = chats.new()
        chat.change_settings({"sampling.top_k": 5, "system": "x"})
        with pytest.raises(SettingsError):
            chat.change_settings({"sampling.top_k": "many"})
        chat.change_settings({"system": None})
        assert not await chats.list()  # nothing was asked yet
        await chat.ask("q", ignore)
        return await chats.open(chat.session.id)

    chat = run(tmp_path, work)
    assert chat.settings.sampling.top_k == 5 and chat.settings.system == ""
    assert chat.session.settings["model"] == "smollm2:135m"  # which it keeps from the first question on


def test_a_title_is_one_line_and_not_empty(tmp_path: Path) -> None:
    async def work(_: Saver, chats: Chats) -> str:
        chat = chats.new()
        await chat.ask("What is it?", ignore)
        chat.rename("my\ntitle ")
        with pytest.raises(UsageError):
            chat.rename(" \n")
        return (await chats.open("my title")).session.title

    assert run(tmp_path, work) == "my title"


def test_a_deleted_chat_leaves_the_list_and_comes_back_in_a_later_run_too(tmp_path: Path) -> None:
    async def delete(_: Saver, chats: Chats) -> tuple[int, str]:
        for question in ("first", "second"):
            chat = chats.new()
            await chat.ask(question, ignore)
            await chats.delete(chat.session.id)
        return len(await chats.list()), chat.session.id

    async def undo(_: Saver, chats: Chats) -> tuple[str | None, int]:
        return await chats.undo_delete(), len(await chats.list())

    left, second = run(tmp_path, delete)
    assert left == 0
    assert run(tmp_path, undo) == (second, 1)
    assert run(tmp_path, undo)[1] == 2
    assert run(tmp_path, undo) == (None, 2)


def test_an_export_overwrites_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def work(_: Saver, chats: Chats) -> ChatSession:
        chat = chats.new()
        await chat.ask("a/b", ignore)
        return chat

    chat = run(tmp_path, work, FakeBackend(Thinking("secret"), Answer("yes")))
    first, second = export(chat), export(chat)
    assert first != second and first.parent == second.parent == tmp_path
    assert "secret" not in first.read_text() and "yes" in first.read_text()
    assert "secret" in export(chat, "all.json").read_text()
    for name in ("all.json", "chat.txt", "nowhere/x.md"):
        with pytest.raises(UsageError):
            export(chat, name)


def test_another_model_is_opened_only_after_the_first_is_closed(tmp_path: Path) -> None:
    first, second = FakeBackend(Answer("1")), FakeBackend(Answer("2"))

    async def work(_: Saver, chats: Chats) -> list[str]:
        chat = chats.new()
        answers = [(await chat.ask("q", ignore)).content, (await chat.ask("q", ignore)).content]
        assert not first.closed
        chat.change_settings({"model": "other"})
        return [*answers, (await chat.ask("q", ignore)).content]

    assert run(tmp_path, work, first, second) == ["1", "1", "2"]
    assert first.closed and second.closed


def test_leaving_while_a_model_is_opened_leaves_it_to_be_used(tmp_path: Path) -> None:
    opened = []

    async def main() -> str:
        loop = asyncio.get_running_loop()
        begun, may_end = asyncio.Event(), asyncio.Event()

        def open_backend(settings: Settings, report: Report) -> Backend:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result()
            opened.append(settings.model)
            return FakeBackend(Answer("yes"))

        saver = Saver(partial(Store.open, tmp_path / "sessions.db"), ignore)
        host = BackendHost(open_backend)
        chat = Chats(saver, host).new()
        task = asyncio.create_task(chat.ask("q", ignore))
        await begun.wait()
        assert host.current is None
        task.cancel()
        await asyncio.wait([task])
        may_end.set()
        reply = await chat.ask("again", ignore)
        assert host.current is not None
        await host.close()
        await saver.close(5)
        return reply.content

    assert asyncio.run(main()) == "yes"
    assert len(opened) == 1


def test_a_failed_opening_is_tried_again(tmp_path: Path) -> None:
    async def work(_: Saver, chats: Chats) -> list[str]:
        chat = chats.new()
        return [(await chat.ask("q", ignore)).state, (await chat.ask("q", ignore)).state]

    assert run(tmp_path, work, ModelNotFoundError("no model"), FakeBackend(Answer("x"))) == ["error", "stop"]


def test_events_of_a_reply_that_nobody_planned_for_are_kept_as_failed(tmp_path: Path) -> None:
    shown: list[Event | Change] = []

    async def work(_: Saver, chats: Chats) -> ChatSession:
        chat = chats.new()
        with pytest.raises(ZeroDivisionError):
            await chat.ask("q", shown.append)
        return chat

    chat = run(tmp_path, work, FakeBackend(Answer("a"), ZeroDivisionError()))  # type: ignore[arg-type]
    assert chat.conversation.path()[-1].state == "error"
    assert isinstance(shown[-1], Finished)
