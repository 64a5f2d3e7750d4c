"""S03 in the app: where saving fails the chat goes on, the screen says why, and nothing is lost silently."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.backends.base import Answer
from app.chat import saver
from app.chat.importer import import_json
from app.chat.store import Store
from app.settings import paths
from app.ui import app as the_app
from app.ui.app import QChatApp
from tests.small_disk import run_on_small_disk
from tests.ui.app.harness import HOLD, ScriptedBackend, ask, run, running, screen, send, shown, until

LONG = "A sentence of the reply.\n\n" * 8_000  # more than the pages that are left


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.chat.database.BUSY_S", 0.05)
    monkeypatch.setattr(saver, "FIRST_RETRY_S", 0.02)
    monkeypatch.setattr(saver, "LAST_RETRY_S", 0.1)
    monkeypatch.setattr(the_app, "SAVE_WITHIN_S", 0.3)


async def leave_pages(app: QChatApp, pages: int) -> None:
    """As if the disk had room for that many pages of the file."""

    def limit(store: Store) -> None:
        store._database.run(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}").fetchone())

    await app.saver.run(limit)


def saved() -> list[str]:
    store = Store.open_default(pytest.fail)
    try:
        return [message.content for message in store.messages(store.session("last").id)]
    finally:
        store.close()


def test_a_disk_that_fills_while_a_reply_streams_holds_nothing_up_and_is_caught_up_with() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Answer("begun. "), HOLD, Answer(LONG), HOLD, Answer("The end.")], [Answer("four")])
        async with running(backend) as (app, pilot):
            await send(app, pilot, "one")
            await until(pilot, lambda: backend.held.is_set() and "begun." in shown(app))
            await leave_pages(app, 40)
            backend.release()
            await until(pilot, lambda: "not saved: cannot use the chats: the disk is full" in shown(app))
            await until(pilot, lambda: backend.holds == 2 and screen(app).replying)
            backend.release()
            await until(pilot, lambda: not screen(app).replying)
            assert "The end." in shown(app)
            await ask(app, pilot, "three")
            assert "four" in shown(app) and "not saved: " in shown(app)
            await leave_pages(app, 1_000_000)
            await until(pilot, lambda: "not saved" not in shown(app))
            assert await app.saver.flush(5)
            assert saved() == ["one", f"begun. {LONG}The end.", "three", "four"]
        assert app.left_unsaved == ""

    run(work)


def test_on_a_disk_that_is_full_a_message_is_told_of_and_saved_once_there_is_room(qchat_home: Path) -> None:
    """D03: a real disk, filled by something else while the app runs."""
    said = run_on_small_disk(qchat_home, 1 << 20, "tests.ui.app.full_disk", [])
    assert json.loads(said) == ["one", "first reply", "two", "A line of the reply.\n\n" * 4000]


def test_what_a_full_disk_kept_from_being_saved_is_in_a_rescue_file_at_the_end() -> None:
    async def work() -> None:
        backend = ScriptedBackend([Answer("first reply")], [Answer(LONG), HOLD])
        async with running(backend) as (app, pilot):
            await ask(app, pilot, "one")
            assert await app.saver.flush(5)
            await leave_pages(app, 40)
            await send(app, pilot, "two")
            await until(pilot, lambda: "not saved" in shown(app) and backend.held.is_set())
        rescued = Path(app.left_unsaved)
        assert rescued.parent == paths().data_dir
        store = Store.open_default(pytest.fail)
        import_json(store, rescued.read_text("utf-8"), "rescued")
        store.close()
        assert saved() == ["one", "first reply", "two", "", LONG]  # beside the reply as it was saved last

    run(work)


@pytest.fixture
def no_data_folder(qchat_home: Path) -> Path:
    """A file where the data folder should be: as good as one that may not be written, also for root."""
    qchat_home.mkdir()
    (qchat_home / "data").write_bytes(b"")
    return qchat_home / "data"


def test_a_data_folder_that_cannot_be_used_is_told_of_and_the_chat_saved_once_it_can(no_data_folder: Path) -> None:
    async def work() -> None:
        backend = ScriptedBackend([Answer("half "), HOLD, Answer("whole")])
        async with running(backend) as (app, pilot):
            await send(app, pilot, "one")
            await until(pilot, lambda: "half" in shown(app) and "not saved: cannot use the chats: " in shown(app))
            backend.release()
            await until(pilot, lambda: "half whole" in shown(app) and not screen(app).replying)
            no_data_folder.unlink()
            await until(pilot, lambda: "not saved" not in shown(app))
            assert await app.saver.flush(5)
            assert saved() == ["one", "half whole"]

    run(work)


def test_without_a_data_folder_the_rescue_file_goes_to_the_one_for_temporary_files(
    no_data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def work() -> None:
        async with running(ScriptedBackend([Answer("the reply")])) as (app, pilot):
            await ask(app, pilot, "one")
        rescued = Path(app.left_unsaved)
        assert rescued.parent == tmp_path and "the reply" in rescued.read_text("utf-8")

    run(work)
