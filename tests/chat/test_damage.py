"""S01: a damaged file. The original is kept, what can be read is kept, and a person is told; it is never just empty."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from app.chat import damage
from app.chat.conversation import Conversation, Message
from app.chat.pages import read_rows
from app.chat.store import Store
from app.errors import StoreError
from tests.chat.stores import chat, put

PAGE = 4096


@pytest.fixture
def chats(path: Path) -> dict[str, list[Message]]:
    """A closed file of 20 chats with 10 messages each, some of them long; its messages by the id of their chat."""
    store = Store.open(path, pytest.fail)
    saved = {}
    for number in range(20):
        texts = [f"chat {number} message {index} " + "long ä " * (2000 if index == 5 else 20) for index in range(10)]
        session, messages = chat(f"chat {number}", *texts)
        store.add([(session, messages)])
        saved[session.id] = messages
    store.close()
    return saved


def kept_copies(path: Path) -> list[Path]:
    return sorted(file for file in path.parent.glob("sessions.db.damaged-*") if not file.name.endswith("-wal"))


def page_of(path: Path, table: str, kind: int) -> int:
    """The number of a page of that kind (5: inner, 13: leaf, as in SQLite's format) from the middle of `table`."""
    with closing(sqlite3.connect(path)) as raw:
        root = raw.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]
    content = path.read_bytes()
    found, todo = [], [root]
    while todo:
        number = todo.pop()
        page = content[(number - 1) * PAGE : number * PAGE]
        if page[0] == kind:
            found.append(number)
        if page[0] == 5:
            cells = [
                int.from_bytes(page[at : at + 2], "big")
                for at in range(12, 12 + 2 * int.from_bytes(page[3:5], "big"), 2)
            ]
            todo += [int.from_bytes(page[at : at + 4], "big") for at in (8, *cells)]
    return sorted(found)[len(found) // 2]


def overwrite(path: Path, number: int, filling: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[(number - 1) * PAGE : number * PAGE] = (filling * PAGE)[:PAGE]
    path.write_bytes(content)


def read_all(store: Store) -> dict[str, list[Message]]:
    return {one.session.id: store.messages(one.session.id) for one in store.sessions()}


@pytest.mark.parametrize("filling", [b"\0", b"\xff", b"some text "])
def test_a_lost_first_page_loses_no_chat(
    path: Path, chats: dict[str, list[Message]], told: list[str], filling: bytes
) -> None:
    overwrite(path, 1, filling)
    original = path.read_bytes()
    store = Store.open(path, told.append)
    assert read_all(store) == chats
    (copy,) = kept_copies(path)
    assert copy.read_bytes() == original
    assert stat.S_IMODE(copy.stat().st_mode) == stat.S_IMODE(path.stat().st_mode) == 0o600
    (line,) = told
    assert "damaged" in line and str(copy) in line and "20" in line and "200" in line
    put(store, "life goes on", "q")
    assert len(store.sessions()) == 21 and store.search("life goes on")
    store.close()
    Store.open(path, pytest.fail).close()


def test_a_lost_inner_page_loses_no_message(path: Path, chats: dict[str, list[Message]], told: list[str]) -> None:
    overwrite(path, page_of(path, "message", 5), b"\0")
    store = Store.open(path, told.append)  # nothing has met the damage yet
    assert read_all(store) == chats
    assert len(told) == 1


def test_a_lost_leaf_loses_its_messages_alone_and_the_next_ones_say_so(
    path: Path, chats: dict[str, list[Message]], told: list[str]
) -> None:
    overwrite(path, page_of(path, "message", 13), b"\0")
    store = Store.open(path, told.append)
    found = read_all(store)
    assert len(told) == 1 and len(kept_copies(path)) == 1
    assert found.keys() == chats.keys()
    whole = [session_id for session_id in chats if found[session_id] == chats[session_id]]
    assert len(whole) >= 17
    after_a_gap = []
    for session_id in found.keys() - set(whole):
        lost = {m.id for m in chats[session_id]} - {m.id for m in found[session_id]}
        after_a_gap += [m for m in found[session_id] if m.parent_id in lost]
        assert lost
        Conversation(found[session_id]).path()  # still a tree
    assert after_a_gap and all(damage.BEFORE_LOST in m.notices for m in after_a_gap)


@pytest.mark.parametrize("filling", [b"\0", b"some text "])
def test_a_long_message_with_a_lost_page_keeps_what_comes_before(
    path: Path, chats: dict[str, list[Message]], told: list[str], filling: bytes
) -> None:
    content = path.read_bytes()
    pages = [content[start : start + PAGE] for start in range(0, len(content), PAGE)]
    inside = [
        number for number, page in enumerate(pages, 1) if page[:4] != bytes(4) and page.count("long ä ".encode()) > 500
    ]
    overwrite(path, inside[7], filling)
    store = Store.open(path, told.append)
    (cut,) = [m for messages in read_all(store).values() for m in messages if damage.PART_LOST in m.notices]
    (before,) = [m for messages in chats.values() for m in messages if m.id == cut.id]
    assert cut.content and before.content.startswith(cut.content.rstrip("\ufffd"))
    others = {m.id: m for messages in chats.values() for m in messages if m.id != cut.id}
    assert {m.id: m for messages in read_all(store).values() for m in messages if m.id != cut.id} == others


@pytest.mark.parametrize("place", [b"long \xc3\xa4 " * 3, b'{"decode_s": 1.25}', b'["a notice"]'])
def test_a_few_bad_bytes_inside_a_message_are_told_of(path: Path, told: list[str], place: bytes) -> None:
    """SQLite itself does not notice them."""
    store = Store.open(path, pytest.fail)
    session, messages = chat("t", "q", "long ä " * 5, "q2")
    messages[1] = replace(messages[1], timing={"decode_s": 1.25}, notices=("a notice",))
    store.add([(session, messages)])
    store.close()
    content = path.read_bytes()
    assert content.count(b"long \xc3\xa4 " * 5) == 1
    path.write_bytes(content.replace(place, b"\xff" * len(place), 1))
    original = path.read_bytes()
    store = Store.open(path, told.append)
    question, reply, last = store.messages(session.id)
    assert (question, last) == (messages[0], messages[2])
    assert damage.PART_LOST in reply.notices and reply.content.endswith("long ä ")
    assert len(told) == 1 and kept_copies(path)[0].read_bytes() == original
    assert len(read_all(store)) == 1
    assert len(told) == 1


def test_bad_bytes_in_the_settings_of_a_chat_cost_only_those(path: Path, told: list[str]) -> None:
    store = Store.open(path, pytest.fail)
    session, messages = chat("t", "q")
    store.add([(replace(session, settings={"system": "be kind"}), messages)])
    store.close()
    path.write_bytes(path.read_bytes().replace(b'{"system"', b"\0\0\0\0\0\0\0\0\0"))
    store = Store.open(path, told.append)
    assert [one.session for one in store.sessions()] == [session]
    assert len(told) == 1 and len(kept_copies(path)) == 1


def test_a_chat_that_itself_is_lost_keeps_its_messages(
    path: Path, told: list[str], chats: dict[str, list[Message]]
) -> None:
    overwrite(path, page_of(path, "session", 13), b"\0")
    store = Store.open(path, told.append)
    assert read_all(store) == chats
    assert damage.LOST_CHAT in {one.session.title for one in store.sessions()}


def test_a_tail_of_nothing_keeps_the_head(path: Path, chats: dict[str, list[Message]], told: list[str]) -> None:
    content = path.read_bytes()
    keep = len(content) // 2 // PAGE * PAGE
    path.write_bytes(content[:keep] + b"\0" * (len(content) - keep))
    store = Store.open(path, told.append)
    found = read_all(store)
    store.search("chat")
    assert len(told) == 1 and len(kept_copies(path)) == 1
    kept = [m for messages in found.values() for m in messages]
    assert 20 < len(kept) < 200


@pytest.mark.parametrize("content", [b"", b"x", b'{"half": ', b"some text\n" * 1000, b"\0" * 10000])
def test_a_file_that_holds_no_chat_is_kept_and_told_of(path: Path, told: list[str], content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    store = Store.open(path, told.append)
    assert store.sessions() == []
    (copy,) = kept_copies(path)
    assert copy.read_bytes() == content
    assert len(told) == 1 and "nothing" in told[0]
    store.close()
    Store.open(path, pytest.fail).close()


def test_a_database_of_another_program_is_kept_and_told_of(path: Path, told: list[str]) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE photos (name)")
    original = path.read_bytes()
    assert Store.open(path, told.append).sessions() == []
    assert kept_copies(path)[0].read_bytes() == original and len(told) == 1


def test_chats_that_stand_in_the_log_alone_are_read_from_it(path: Path, told: list[str], tmp_path: Path) -> None:
    """What the last commit left, also where the file itself is gone or bad."""
    store = Store.open(path, pytest.fail)
    session, (question, reply) = put(store, "t", "q", "first")
    reply = replace(reply, content="second " * 3000)
    store.put_message(session.id, reply)
    log = damage.log_file(path).read_bytes()
    for number, content in enumerate((None, b"", b"z" * PAGE)):
        copy = tmp_path / str(number) / "sessions.db"
        copy.parent.mkdir()
        damage.log_file(copy).write_bytes(log)
        if content is not None:
            copy.write_bytes(content)
        repaired = Store.open(copy, told.append)
        assert read_all(repaired) == {session.id: [question, reply]}
        if content == b"z" * PAGE:
            continue  # SQLite itself reads the log in place of every page
        assert len(told) == number + 1
        assert not damage.log_file(copy).exists() or damage.log_file(copy).read_bytes()[16:24] != log[16:24]
        assert any(file.read_bytes() == log for file in copy.parent.glob("*.damaged-*-wal"))
        repaired.close()
    store.close()


def test_of_the_log_only_finished_transactions_of_its_own_time_count(path: Path, told: list[str]) -> None:
    with closing(Store.open(path, pytest.fail)) as store:
        session, messages = put(store, "t", "q", "a")
        log = damage.log_file(path).read_bytes()
    numbers = {log[start : start + 4] for start in range(32, len(log), 24 + PAGE)}
    finished = (1).to_bytes(4, "big")
    unfinished = b"".join(number + bytes(4) + log[16:24] + bytes(8 + PAGE) for number in numbers)
    left_over = b"".join(number + finished + b"othersal" + bytes(8 + PAGE) for number in numbers)
    for addition in (unfinished, left_over):
        path.unlink()
        damage.log_file(path).write_bytes(log + addition)
        with closing(Store.open(path, told.append)) as store:
            assert read_all(store) == {session.id: messages}
    assert len(told) == 2


def test_whatever_stands_in_a_leaf_reading_goes_on() -> None:
    random = Random(7)
    for _ in range(500):
        page = bytearray(b"\x0d\0\0\0\x40" + random.randbytes(PAGE - 5))
        page[8:136] = random.randbytes(128) if random.random() < 0.5 else bytes([1, 0]) * 64
        for row in read_rows(b"z" * PAGE + bytes(page)):
            assert isinstance(row.columns, tuple)


def test_the_log_of_a_damaged_file_is_read_once_and_not_played_into_the_new_one(
    path: Path, chats: dict[str, list[Message]], told: list[str], tmp_path: Path
) -> None:
    number = page_of(path, "message", 13)  # before there is a log: looking for the page would play it into the file
    with closing(Store.open(path, pytest.fail)) as store:
        session, messages = put(store, "in the log", *["x" * 500] * 30)
        copy = tmp_path / "copy" / "sessions.db"
        copy.parent.mkdir()
        damage.log_file(copy).write_bytes(damage.log_file(path).read_bytes())
        copy.write_bytes(path.read_bytes())
    overwrite(copy, number, b"\0")
    with closing(Store.open(copy, told.append)) as store:
        read_all(store)
        assert store.messages(session.id) == messages and len(store.sessions()) == 21
        assert len(store.search("message")) == 50
    assert len(told) == 1
    with closing(sqlite3.connect(copy)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_of_two_versions_of_a_message_the_one_saved_last_is_kept(path: Path, told: list[str]) -> None:
    """Pages can be left over from before, where a power cut came between two writes."""
    store = Store.open(path, pytest.fail)
    session, (question, reply) = put(store, "t", "q", "old")
    store.close()
    old = path.read_bytes()[PAGE:]
    reply = replace(reply, content="new")
    store.put_message(session.id, reply)
    store.close()
    new = path.read_bytes()[PAGE:]
    for pages in (old + new, new + old):
        path.write_bytes(b"z" * PAGE + pages)
        assert read_all(Store.open(path, told.append)) == {session.id: [question, reply]}


def test_a_damaged_index_is_made_anew_and_no_chat_is_touched(
    path: Path, chats: dict[str, list[Message]], told: list[str]
) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE message_text_data SET block = x'00' WHERE id > 10")
        raw.commit()
    store = Store.open(path, told.append)
    assert len(store.search("message 5", 500)) == 38  # also messages 0 to 9 of the chats 5 and 15
    assert len(told) == 1 and "index" in told[0] and not kept_copies(path)
    assert read_all(store) == chats


def test_damage_that_another_window_repairs_is_noticed(
    path: Path, chats: dict[str, list[Message]], told: list[str]
) -> None:
    here = Store.open(path, pytest.fail)
    before = damage.identity(path)
    overwrite(path, page_of(path, "message", 13), b"\0")
    there = Store.open(path, told.append)
    read_all(there)
    damage.repair(path, before, pytest.fail)  # a third meets the damage later and finds it mended
    put(there, "there", "q")
    put(here, "here", "q")  # lets go of the old file
    assert read_all(here) == read_all(there)
    assert len(read_all(here)) == 22 and len(kept_copies(path)) == len(told) == 1
    here.close()
    there.close()
    assert len(read_all(Store.open(path, pytest.fail))) == 22


def test_a_file_that_is_removed_while_it_is_used_is_told_of(
    path: Path, store: Store, told: list[str], chats: dict[str, list[Message]]
) -> None:
    assert len(store.sessions()) == 20
    for file in path.parent.glob("sessions.db*"):
        file.unlink()
    session, _ = put(store, "t", "q")
    assert [one.session.id for one in store.sessions()] == [session.id]
    assert len(told) == 1 and "removed" in told[0]


def test_a_folder_in_place_of_the_file_is_an_error_with_a_way_out(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match="is a folder") as error:
        Store.open(path, pytest.fail)
    assert error.value.hint
    assert path.is_dir()


@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_file_without_permission_is_an_error_and_stays(unprivileged_folder: Path, mode: int) -> None:
    path = unprivileged_folder / "sessions.db"
    store = Store.open(path, pytest.fail)
    session, messages = put(store, "t", "q")
    store.close()
    path.chmod(mode)
    with pytest.raises(StoreError) as error:
        Store.open(path, pytest.fail)
    assert error.value.hint and "chmod" in error.value.hint
    path.chmod(0o600)
    assert store.messages(session.id) == messages
    assert not kept_copies(path)


def test_where_the_original_cannot_be_kept_nothing_is_changed(
    path: Path, chats: dict[str, list[Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    overwrite(path, 1, b"\xff")
    original = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(StoreError, match="No space"):
        Store.open(path, pytest.fail)
    assert path.read_bytes() == original
