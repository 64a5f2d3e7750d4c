"""Another program holds the file of the chats: the reply is shown, the screen says so, and nothing is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.chat.store import Store
from tests.home import qchat_home
from tests.ui.terminal.window import QUIT, Window

__all__ = ["qchat_home"]

NOT_SAVED = "not saved: "


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """The file, held by another connection."""
    other = sqlite3.connect(file, isolation_level=None, timeout=20)
    try:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")
    finally:
        other.close()


def saved() -> list[str]:
    store = Store.open_default(lambda _: None)
    try:
        return [message.content for message in store.messages(store.session("last").id)]
    finally:
        store.close()


def test_a_locked_file_is_told_of_until_it_is_free_and_at_the_end_the_chat_is_rescued(qchat_home: Path) -> None:
    file = qchat_home / "data" / "sessions.db"
    with Window(qchat_home).ready() as window:
        window.send("first")
        window.expect("you said: first")
        window.until(lambda: file.exists() and saved() == ["first", "you said: first"])
        with locked(file):
            window.send("second")
            window.expect("you said: second")
            window.expect(NOT_SAVED)
        window.until(lambda: NOT_SAVED not in window.text)
        assert saved()[2:] == ["second", "you said: second"]
        with locked(file):
            window.send("third")
            window.expect(NOT_SAVED)
            window.type(QUIT)
            assert window.end() == 1
        assert window.was_given_back()
    words = window.last_words
    assert "this chat could not be saved" in words and "qchat sessions import" in words
    rescued = next((qchat_home / "data").glob("unsaved-*.json"))
    assert rescued.name in words and "third" in rescued.read_text("utf-8")
