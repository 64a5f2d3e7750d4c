"""S03: saving that meets a lock, a full disk or a folder that may not be written, and loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from app.chat import saver as saver_module
from app.chat.conversation import Message, new_message
from app.chat.importer import import_json
from app.chat.saver import Saver
from app.chat.store import Store
from app.errors import StoreError
from tests.chat.stores import chat

HOLD_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
print("released", flush=True)
"""


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.chat.database.BUSY_S", 0.05)
    monkeypatch.setattr(saver_module, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(saver_module, "LAST_RETRY_S", 0.05)


class Watched:
    """A saver and what it said; `until` waits for one of its changes."""

    def __init__(self, path: Path) -> None:
        self.told: list[str] = []
        self.states: list[str | None] = []
        self._changed = asyncio.Event()
        self.saver = Saver(partial(Store.open, path), self.told.append, self._note)

    def _note(self) -> None:
        self.states.append(self.saver.failing)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 20)


@contextlib.asynccontextmanager
async def watched(path: Path) -> AsyncIterator[Watched]:
    one = Watched(path)
    try:
        yield one
    finally:
        await one.saver.close(5)


def read(path: Path, session_id: str) -> list[str]:
    store = Store.open(path, pytest.fail)
    contents = [message.content for message in store.messages(session_id)]
    store.close()
    return contents


def test_what_is_put_is_saved_in_order_and_can_be_read(path: Path) -> None:
    session, messages = chat("t", "q", "a", "q2")

    async def run() -> None:
        async with watched(path) as one:
            for message in messages:
                one.saver.put_message(session.id, message)  # before its chat: that goes first all the same
            one.saver.put_session(session)
            assert one.saver.unsaved == 4
            assert await one.saver.run(lambda store: store.messages(session.id)) == messages
            assert await one.saver.flush(5) and one.saver.unsaved == 0
            assert one.states == []
            with pytest.raises(StoreError):
                await one.saver.run(lambda store: store.add([(session, messages)]))

    asyncio.run(run())
    assert read(path, session.id) == ["q", "a", "q2"]


def test_of_several_versions_that_wait_only_the_newest_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, (message,) = chat("t", "0")
    written: list[str] = []
    real = Store.put_message
    monkeypatch.setattr(Store, "put_message", lambda self, s, m: (written.append(m.content), real(self, s, m))[1])

    async def run() -> None:
        async with watched(path) as one:
            busy = threading.Event()
            waiting = asyncio.ensure_future(one.saver.run(lambda _: busy.wait(20)))
            await asyncio.sleep(0)
            one.saver.put_session(session)
            for number in range(100):
                one.saver.put_message(session.id, replace(message, content=str(number)))
            assert one.saver.unsaved == 2
            busy.set()
            await waiting

    asyncio.run(run())
    assert written == ["99"]


def test_a_version_that_comes_while_an_older_one_is_written_is_not_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, (message,) = chat("t", "old")
    real = Store.put_message

    async def run() -> None:
        async with watched(path) as one:
            newer_is_put = threading.Event()

            def put_newer() -> None:
                one.saver.put_message(session.id, replace(message, content="new"))
                newer_is_put.set()

            def slow_put(store: Store, session_id: str, saved: Message) -> None:
                if not newer_is_put.is_set():
                    loop.call_soon_threadsafe(put_newer)
                    assert newer_is_put.wait(20)
                real(store, session_id, saved)

            loop = asyncio.get_running_loop()
            monkeypatch.setattr(Store, "put_message", slow_put)
            one.saver.put_session(session)
            one.saver.put_message(session.id, message)
            assert await one.saver.flush(20)

    asyncio.run(run())
    assert read(path, session.id) == ["new"]


def test_a_lock_of_another_process_holds_nothing_up_and_is_waited_out(path: Path) -> None:
    session, (question, reply) = chat("t", "q", "the whole reply")
    Store.open(path, pytest.fail).close()

    async def run() -> None:
        command = [sys.executable, "-c", HOLD_THE_LOCK, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdin and other.stdout and other.stdout.readline() == "locked\n"
            async with watched(path) as one:
                one.saver.put_session(session)
                one.saver.put_message(session.id, question)
                await one.until(lambda: one.saver.failing is not None)
                assert one.saver.failing and "another program is using it" in one.saver.failing
                slowest = 0.0
                for _ in range(20):
                    start = time.perf_counter()
                    one.saver.put_message(session.id, reply)
                    await asyncio.sleep(0)
                    slowest = max(slowest, time.perf_counter() - start)
                assert slowest < 0.04  # a try takes 0.05 s
                assert not await one.saver.flush(0.1)
                assert one.saver.unsaved == 3
                other.stdin.write("\n")
                other.stdin.flush()
                assert other.stdout.readline() == "released\n"
                await one.until(lambda: one.saver.failing is None)  # by itself
                assert await one.saver.flush(20)
                assert len(one.states) == 2

    asyncio.run(run())
    assert read(path, session.id) == ["q", "the whole reply"]


def test_a_full_disk_is_told_of_and_saving_goes_on_when_there_is_room(path: Path) -> None:
    session, (message,) = chat("t", "x" * 2_000_000)

    async def run() -> None:
        async with watched(path) as one:
            one.saver.put_session(session)
            assert await one.saver.flush(5)
            await one.saver.run(lambda store: limit_pages(store, 40))
            one.saver.put_message(session.id, message)
            await one.until(lambda: one.saver.failing is not None)
            assert one.saver.failing and "the disk is full" in one.saver.failing
            await one.saver.run(lambda store: limit_pages(store, 1_000_000))
            assert await one.saver.flush(20)

    def limit_pages(store: Store, pages: int) -> None:
        store._database.run(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}").fetchone())

    asyncio.run(run())
    assert read(path, session.id) == [message.content]


def test_a_folder_that_may_not_be_written_ends_in_a_rescue_file_elsewhere(
    unprivileged_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, messages = chat("Rescued", "q", "a")
    folder = unprivileged_folder / "data"
    folder.mkdir()
    elsewhere = unprivileged_folder / "tmp"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    folder.chmod(0o500)

    async def run() -> Path:
        one = Watched(folder / "sessions.db")
        one.saver.put_session(session)
        for message in messages:
            one.saver.put_message(session.id, message)
        await one.until(lambda: one.saver.failing is not None)
        with pytest.raises(StoreError):
            await one.saver.run(lambda store: store.sessions())
        assert not await one.saver.close(0.1)
        assert one.saver.unsaved == 3
        return one.saver.rescue(folder)

    rescued = asyncio.run(run())
    folder.chmod(0o700)
    store = Store.open(folder / "sessions.db", pytest.fail)
    assert rescued.parent == elsewhere and rescued.stat().st_mode & 0o777 == 0o600
    import_json(store, rescued.read_text("utf-8"), "rescued")
    assert store.session("Rescued").id == session.id
    assert [message.content for message in store.messages(session.id)] == ["q", "a"]
    store.close()


def test_a_rescue_file_completes_the_chat_that_it_belongs_to(path: Path, store: Store) -> None:
    session, (question, reply) = chat("t", "q", "half")
    store.put_session(session)
    store.put_message(session.id, question)
    store.put_message(session.id, replace(reply, state="streaming"))
    follow_up = new_message(reply.id, "user", "and?")

    async def run() -> Path:
        one = Watched(path)
        await one.saver.close(5)  # nothing is written any more
        one.saver._waiting = {  # as if every try had failed
            (session.id, message.id): message for message in (question, replace(reply, content="whole"), follow_up)
        }
        return one.saver.rescue(path.parent)

    rescued = asyncio.run(run())
    assert json.loads(rescued.read_text())["partial"] is True
    (outcome,) = import_json(store, rescued.read_text(), "x")
    assert (outcome.added, outcome.session.title) == (2, "t")
    found = {message.content: message for message in store.messages(session.id)}
    assert found.keys() == {"q", "half", "whole", "and?"}
    assert found["whole"].parent_id == question.id and found["and?"].parent_id == found["whole"].id
    assert import_json(store, rescued.read_text(), "x")[0].added == 1  # the other version of the reply is there again


def test_what_the_store_has_to_say_is_said_on_the_loop(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"")
    threads: list[threading.Thread] = []

    async def run() -> None:
        saver = Saver(partial(Store.open, path), lambda _: threads.append(threading.current_thread()))
        await saver.run(lambda store: store.sessions())
        await saver.close(5)

    asyncio.run(run())
    assert threads == [threading.main_thread()]


def test_the_exclusive_lock_of_this_process_is_met_too(path: Path, store: Store) -> None:
    """The error that a command shows, with what to do."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="another program") as error:
            store.put_session(chat("t")[0])
        assert error.value.hint
