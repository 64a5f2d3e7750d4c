"""The store: what is put comes back, in every window, and lists stay fast."""

from __future__ import annotations

import sqlite3
import stat
import statistics
import time
import unicodedata
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.chat import rows
from app.chat.bulk import add_messages
from app.chat.conversation import Message, Session, new_message, new_session
from app.chat.store import Store
from app.errors import SessionNotFoundError, StoreError, UsageError
from app.settings import paths
from app.templates.reply import ToolCall
from tests.chat.stores import chat, put

REPLY = Message(
    "b",
    "a",
    "assistant",
    "an answer\0 with a NUL",
    "a thought",
    (ToolCall("f", {"x": [1, None]}, "<tool_call>"),),
    ("a notice",),
    "length",
    "qwen3:0.6b",
    12.5,
    {"thinking_s": 1.5, "generated_tokens": 7.0},
)


def test_everything_of_a_chat_comes_back_from_a_new_connection(store: Store, path: Path) -> None:
    session = Session("s", "A title", True, 1.0, 2.0, "b", {"sampling.top_p": 0.5, "thinking": "off"})
    question = replace(REPLY, id="a", parent_id=None, role="user", state="stop", tool_calls=())
    store.put_session(session)
    store.put_message("s", question)
    store.put_message("s", REPLY)
    again = Store.open(path, pytest.fail)
    found = again.session("s")
    assert replace(found, updated=2.0) == session
    assert abs(found.updated - time.time()) < 60
    assert again.messages("s") == [question, REPLY]
    again.close()


def test_putting_twice_is_harmless_and_putting_again_replaces(store: Store) -> None:
    session, (question, reply) = put(store, "t", "q", "half")
    whole = replace(reply, content="half and half", state="stop", timing={"decode_s": 1.0})
    for _ in range(2):
        store.put_session(session)
        store.put_message(session.id, whole)
    assert store.messages(session.id) == [question, whole]
    assert [one.messages for one in store.sessions()] == [2]


def test_the_list_has_the_latest_first_with_counts_and_previews(store: Store) -> None:
    first, _ = put(store, "first", "q", "x" * 500)
    second, _ = put(store, "second")
    store.put_message(first.id, new_message(None, "user", "newest"))
    listed = store.sessions()
    assert [(s.session.title, s.messages, s.preview) for s in listed] == [("first", 3, "newest"), ("second", 0, "")]
    store.put_session(replace(first, updated=0.0))  # from a window that has not seen the newest message
    assert store.session("last").id == first.id
    assert second.id in {s.session.id for s in store.sessions()}


def test_a_chat_is_found_by_id_beginning_title_and_last(store: Store) -> None:
    for name in ("abc1", "abd2", "last"):
        store.put_session(Session(f"{name}", title=f"chat {name}"))
    put(store, "50% off %s")
    newest, _ = put(store, "newest", "q")
    assert store.session("abc").id == "abc1"
    assert store.session("chat abd2").id == "abd2"
    assert store.session("50% off %s").title == "50% off %s"
    assert store.session("last").id == newest.id
    for unknown in ("", "nope", "abc12", "chat", "%"):
        with pytest.raises(SessionNotFoundError):
            store.session(unknown)
    with pytest.raises(UsageError, match=r"abc1.*abd2|abd2.*abc1"):
        store.session("ab")


def test_titles_that_look_alike_are_never_taken_for_one_another(store: Store) -> None:
    """S05: one title in both normal forms, and the same title twice."""
    composed, decomposed = (unicodedata.normalize(form, "Käse") for form in ("NFC", "NFD"))
    titles = [composed, decomposed, "a/b", "../../x", "x" * 300, "漢" * 100, "CON", ".", "a\nb", "-x"]
    ids = {put(store, title)[0].id: title for title in titles}
    assert {s.session.id: s.session.title for s in store.sessions()} == ids
    for wanted in (composed, decomposed):
        with pytest.raises(UsageError, match="several"):
            store.session(wanted)
    assert store.session("../../x").title == "../../x"


def test_a_title_given_by_a_person_stays_when_another_window_makes_one_up(store: Store) -> None:
    session, _ = put(store, "made up")
    named = replace(session, title="named", titled_by_person=True)
    store.put_session(named)
    store.put_session(replace(session, leaf_id="x"))
    assert (store.session(session.id).title, store.session(session.id).leaf_id) == ("named", "x")
    store.put_session(replace(named, title="named again"))
    assert store.session(session.id).title == "named again"


def test_a_reply_that_nobody_saves_any_more_is_interrupted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session, (_, reply) = put(store, "t", "q", "half a rep")
    store.put_message(session.id, replace(reply, state="streaming"))
    assert store.messages(session.id)[1].state == "streaming"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 11)
    before = store.changes()
    assert store.messages(session.id)[1].state == "interrupted"
    assert store.changes() == before
    store.put_message(session.id, replace(reply, content="the whole reply", state="stop"))  # its window lives after all
    assert store.messages(session.id)[1].content == "the whole reply"


def test_two_windows_keep_all_their_messages_and_see_that_the_other_wrote(store: Store, path: Path) -> None:
    session, (question, _) = put(store, "t", "q", "a")
    other = Store.open(path, pytest.fail)
    seen = store.changes()
    for number in range(5):
        store.put_message(session.id, new_message(question.id, "assistant", f"here {number}"))
        other.put_message(session.id, new_message(question.id, "assistant", f"there {number}"))
    assert store.changes() != seen
    assert len(store.messages(session.id)) == len(other.messages(session.id)) == 12
    seen = store.changes()
    store.put_message(session.id, new_message(None, "user", "my own"))
    assert store.changes() == seen
    other.close()


def test_a_deleted_chat_comes_back_until_it_is_purged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session, messages = put(store, "gone", "needle")
    kept, _ = put(store, "kept", "needle")
    store.delete(session.id)
    assert [s.session.id for s in store.sessions()] == [kept.id]
    assert [hit.session_id for hit in store.search("needle")] == [kept.id]
    with pytest.raises(SessionNotFoundError):
        store.session(session.id)
    assert store.purge(60) == 0
    store.undelete(session.id)
    assert store.messages(store.session("gone").id) == messages
    store.delete(session.id)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert store.purge(60) == 1
    assert store.messages(session.id) == []
    assert store.session("kept") and len(store.search("needle")) == 1


def test_what_is_removed_leaves_no_trace_in_the_file(store: Store, path: Path) -> None:
    kept, _ = put(store, "kept", "stays")
    session, _ = put(store, "gone", "secret-plan " * 1000, "another-secret")
    store.remove(session.id)
    files = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"secret-plan" not in files and b"another-secret" not in files
    assert b"stays" in files
    with closing(sqlite3.connect(path)) as raw:
        (index_bytes,) = raw.execute("SELECT sum(length(block)) FROM message_text_data").fetchone()
    assert index_bytes < 200  # the three trigrams of "stays"
    assert store.session("last").id == kept.id


def test_a_message_for_a_chat_that_was_removed_is_refused(store: Store) -> None:
    session, (message,) = put(store, "t", "q")
    store.remove(session.id)
    with pytest.raises(SessionNotFoundError):
        store.put_message(session.id, message)


def test_a_whole_chat_is_added_or_nothing(store: Store) -> None:
    session, messages = chat("t", "q", "a")
    store.add([(session, messages)])
    assert store.session("last") == session  # with the time at which it was last used
    assert store.messages(session.id) == messages
    other, other_messages = chat("other", "q")
    with pytest.raises(StoreError):
        store.add([(other, [*other_messages, messages[0]])])
    assert [s.session.title for s in store.sessions()] == ["t"]
    ids = {session.id, messages[1].id}
    assert store.known([*ids, other.id, "x"]) == ids


def test_halves_of_characters_are_mended_before_they_reach_the_file(store: Store) -> None:
    """S04: everywhere where text can come from a terminal, a server or a model."""
    bad, good = "\ud83d\udc3a \udc9d", "🐺 �"
    session = replace(new_session({"system": bad}), title=bad)
    message = new_message(None, "assistant", bad, thinking=bad, notices=(bad,), model=bad)
    message = replace(message, tool_calls=(ToolCall(bad, {bad: bad}, bad),))
    store.put_session(session)
    store.put_message(session.id, message)
    found = store.session(session.id)
    assert (found.title, found.settings) == (good, {"system": good})
    (read,) = store.messages(session.id)
    assert (read.content, read.thinking, read.notices, read.model) == (good, good, (good,), good)
    assert read.tool_calls == (ToolCall(good, {good: good}, good),)
    assert [hit.snippet for hit in store.search("\ud83d\udc3a")] == [good, good]


def test_files_are_for_this_user_alone(qchat_home: Path) -> None:
    store = Store.open_default(pytest.fail)
    put(store, "t", "q")
    folder = paths().data_dir
    assert store.path == folder / "sessions.db"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir() if file.stat().st_size}
    assert modes == dict.fromkeys(("sessions.db", "sessions.db-wal", "sessions.db-shm"), 0o600)
    store.close()
    (folder / "sessions.db").chmod(0o644)
    Store.open_default(pytest.fail).close()
    assert stat.S_IMODE((folder / "sessions.db").stat().st_mode) == 0o600


def test_a_save_waits_for_the_disk_so_that_a_power_cut_takes_no_more_than_a_crash(store: Store) -> None:
    assert store._database.run(lambda connection: connection.execute("PRAGMA synchronous").fetchone()) == (2,)


def test_a_path_may_hold_anything(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "ä b?c#d %41" / "sessions.db", pytest.fail)
    put(store, "t", "q")
    assert (tmp_path / "ä b?c#d %41" / "sessions.db").stat().st_size > 0
    store.close()


def test_saving_in_a_long_chat_costs_at_most_twice_that_in_a_short_one(store: Store) -> None:
    """S07: 5,000 messages and 50 MB against 10 messages; the list and the chat itself open fast."""
    short, _ = put(store, "short", *["q"] * 10)
    long, messages = chat("long", *["some words of a reply " * 15] * 5000)
    store.add([(long, [replace(message, thinking="x" * 9700) for message in messages])])

    def cost(session: Session) -> float:
        message = new_message(None, "assistant", "a reply of a few words " * 40)
        start = time.thread_time()
        for state in ("streaming", "streaming", "stop"):
            store.put_message(session.id, replace(message, state=state))
        return time.thread_time() - start

    pairs = [(cost(short), cost(long)) for _ in range(15)]
    assert statistics.median(b for _, b in pairs) <= 2 * statistics.median(a for a, _ in pairs)
    start = time.thread_time()
    assert len(store.messages(long.id)) == 5015
    assert time.thread_time() - start < 1.0


def test_a_list_of_2000_chats_takes_less_than_a_tenth_of_a_second(store: Store) -> None:
    with closing(sqlite3.connect(store.path)) as raw, raw:
        for number in range(2000):
            session, messages = chat(f"chat {number}", *["a question or a reply"] * 20)
            raw.execute(rows.ADD_SESSION, rows.session_row(session))
            unfinished = (replace(message, state="streaming") for message in messages)  # takes no time to index
            add_messages(raw, [rows.message_row(session.id, m, 0.0) for m in unfinished])
    costs = []
    for _ in range(3):
        start = time.thread_time()
        assert len(store.sessions()) == 2000
        costs.append(time.thread_time() - start)
    assert min(costs) < 0.1
