"""Stores and chats for the tests of storage."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.chat.conversation import Message, Session, new_message, new_session
from app.chat.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "sessions.db"


@pytest.fixture
def told() -> list[str]:
    """What the store has told a person."""
    return []


@pytest.fixture
def store(path: Path, told: list[str]) -> Iterator[Store]:
    store = Store.open(path, told.append)
    yield store
    store.close()


@pytest.fixture
def unprivileged_folder() -> Iterator[Path]:
    """A folder of a user to whom the system says no; the tests may well run as one to whom it never does."""
    folder = Path(tempfile.mkdtemp())
    as_root = os.geteuid() == 0
    if as_root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if as_root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def chat(title: str = "", *texts: str) -> tuple[Session, list[Message]]:
    """A chat in which question and reply take turns."""
    messages: list[Message] = []
    for index, text in enumerate(texts):
        parent_id = messages[-1].id if messages else None
        messages.append(new_message(parent_id, "assistant" if index % 2 else "user", text))
    leaf_id = messages[-1].id if messages else None
    return replace(new_session(), title=title, leaf_id=leaf_id), messages


def put(store: Store, title: str = "", *texts: str) -> tuple[Session, list[Message]]:
    """The same, saved one by one as a chat is."""
    session, messages = chat(title, *texts)
    store.put_session(session)
    for message in messages:
        store.put_message(session.id, message)
    return session, messages
