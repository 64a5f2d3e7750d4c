"""Layouts of the file: an older one is brought up to date with a copy kept, a newer one is left alone."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from app.chat import schema
from app.chat.store import Store
from app.errors import StoreError
from tests.chat.stores import put

NEXT = (*schema.STEPS, ("ALTER TABLE message ADD COLUMN rating INTEGER", "UPDATE message SET rating = 5"))
BROKEN = (*schema.STEPS, ("ALTER TABLE message ADD COLUMN rating INTEGER", "UPDATE nothing SET x = 1"))


def set_steps(monkeypatch: pytest.MonkeyPatch, steps: tuple[schema.Step, ...]) -> None:
    real = schema.migrate
    monkeypatch.setattr(schema, "migrate", lambda connection, keep: real(connection, keep, steps))


def test_an_older_layout_is_brought_up_to_date_and_a_copy_of_it_kept(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, messages = put(store, "t", "q", "a")
    before = store.messages(session.id)
    set_steps(monkeypatch, NEXT)
    newer = Store.open(path, pytest.fail)  # while the older one is still open
    assert newer.messages(session.id) == before == messages
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT sum(rating) FROM message").fetchone() == (10,)
    newer.close()
    copy = path.with_name("sessions.db.layout-1")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (1,)
        assert raw.execute("SELECT count(*) FROM message").fetchone() == (2,)


def test_a_step_that_fails_changes_nothing(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, messages = put(store, "t", "q", "a")
    store.close()
    with monkeypatch.context() as patch:
        set_steps(patch, BROKEN)
        with pytest.raises(StoreError, match="nothing"):
            Store.open(path, pytest.fail)
    assert store.messages(session.id) == messages


def test_a_file_of_a_newer_qchat_is_not_touched(store: Store, path: Path) -> None:
    put(store, "t", "q")
    store.close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(f"PRAGMA user_version = {len(schema.STEPS) + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer qchat") as error:
        Store.open(path, pytest.fail)
    assert error.value.hint and "update" in error.value.hint
    assert path.read_bytes() == before
    assert not list(path.parent.glob("*damaged*"))
