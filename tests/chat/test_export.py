"""Chats as files: readable Markdown, JSON that comes back as it was, and names that are safe everywhere."""

from __future__ import annotations

import itertools
import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from app.chat.conversation import Message, Session, new_message
from app.chat.export import safe_file_name, to_json, to_markdown, write_new, write_private
from app.chat.importer import import_json
from app.chat.store import Store
from app.errors import UsageError
from app.templates.reply import ToolCall
from tests.chat.stores import chat, put


def headings(markdown: str) -> list[str]:
    """The headings that a reader of Markdown sees, so none that a block of code has swallowed or made up."""
    tokens = MarkdownIt().parse(markdown)
    return [after.content for token, after in itertools.pairwise(tokens) if token.type == "heading_open"]


def test_markdown_has_the_title_and_a_heading_for_each_message() -> None:
    session, (question, reply) = chat("A\n title", "What?", "So.")
    reply = replace(reply, model="qwen3:0.6b", state="length", notices=("a notice",), thinking="hidden thought")
    reply = replace(reply, tool_calls=(ToolCall("f", {}, '{"name": "f"}'),))
    assert to_markdown(session, [question, reply]) == (
        "# A title\n\n## You\n\nWhat?\n\n## Reply (qwen3:0.6b)\n\nSo.\n\n"
        '```json\n{"name": "f"}\n```\n\n*[cut off at the token limit]*\n\n*[a notice]*\n'
    )
    assert "hidden thought" in to_markdown(session, [question, reply], thinking=True)
    assert to_markdown(Session("x"), []) == "# Untitled chat\n"


CODE = [
    "```py\nx = 1",
    "````\n```\nx",
    "~~~\n```\n# no heading",
    "- list\n  ```py\n  x",
    "- list\n  ```py\n  x\n\nafter the list",
    "   ```\nx",
    "```\nx\n```",
    "a ``` b",
    "``` x ` y",
]


@pytest.mark.parametrize("content", CODE)
def test_a_block_of_code_that_was_cut_off_does_not_swallow_what_follows(content: str) -> None:
    session, (question, reply, _) = chat("t", "q", content, "next")
    path = [question, reply, new_message(reply.id, "user", "next")]
    assert headings(to_markdown(session, path)) == ["t", "You", "Reply", "You"]
    assert content in to_markdown(session, path)


@pytest.mark.parametrize("thinking", ["plain", "```py\nx = 1\n```", "`````\n# no heading", "# no heading\n</details>"])
def test_thinking_is_quoted_with_a_fence_that_holds_it(thinking: str) -> None:
    session, (question, reply) = chat("t", "q", "a")
    text = to_markdown(session, [question, replace(reply, thinking=thinking)], thinking=True)
    assert headings(text) == ["t", "You", "Reply"]
    assert [token.content for token in MarkdownIt().parse(text) if token.type == "fence"] == [thinking + "\n"]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("A title", "A title.md"),
        ("a/b", "a b.md"),
        ("../../x", "x.md"),
        ("..", "chat.md"),
        (".", "chat.md"),
        ("", "chat.md"),
        (" \n\t", "chat.md"),
        ("CON", "chat CON.md"),
        ("com1.txt", "chat com1.txt.md"),
        ("two\nlines", "two lines.md"),
        ("100%s", "100%s.md"),
        ("-rf", "rf.md"),
        (".hidden", "hidden.md"),
        ('a\\b:c*d?"e<f>g|h', "a b c d e f g h.md"),
        ("\x1b[2J\u202e", "[2J.md"),
        ("x" * 300, "x" * 200 + ".md"),
        ("漢" * 100, "漢" * 66 + ".md"),
        ("\ud83d", "\ufffd.md"),
    ],
)
def test_a_file_name_is_safe_on_every_system(title: str, name: str, tmp_path: Path) -> None:
    """S05"""
    assert safe_file_name(title, ".md") == name
    path = write_new(tmp_path, name.removesuffix(".md"), ".md", "x")
    assert path.parent == tmp_path and len(path.name.encode()) <= 255


def test_both_normal_forms_of_a_title_give_one_name() -> None:
    assert len({safe_file_name(unicodedata.normalize(form, "Käse"), ".md") for form in ("NFC", "NFD")}) == 1


def test_no_file_is_overwritten_unless_that_is_asked_for(tmp_path: Path) -> None:
    paths = [write_new(tmp_path, "a", ".md", str(number)) for number in range(3)]
    assert [path.name for path in paths] == ["a.md", "a-2.md", "a-3.md"]
    assert [path.read_text() for path in paths] == ["0", "1", "2"]
    assert paths[0].stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_private(paths[0], "new")
    assert paths[0].read_text() == "0"
    write_private(paths[0], "n", overwrite=True)
    assert paths[0].read_text() == "n"


def test_json_comes_back_as_it_was(store: Store, tmp_path: Path) -> None:
    session, (question, reply) = put(store, "t", "q", "a\r\n\0 \u2028 🐺")
    reply = replace(reply, thinking="h", tool_calls=(ToolCall("f", {"a": [1]}, "raw"),), timing={"decode_s": 0.1})
    branch = new_message(question.id, "assistant", "another", notices=("n",), state="cancelled")
    for message in (reply, branch):
        store.put_message(session.id, message)
    session = replace(session, settings={"sampling.seed": 7}, titled_by_person=True, updated=5.0)
    text = to_json([(session, store.messages(session.id))])
    elsewhere = Store.open(tmp_path / "elsewhere" / "sessions.db", pytest.fail)
    (outcome,) = import_json(elsewhere, text, "x")
    assert (outcome.session, outcome.added, outcome.renumbered) == (session, 3, False)
    assert elsewhere.session("last") == session
    assert elsewhere.messages(session.id) == [question, reply, branch]
    elsewhere.close()


def test_a_chat_that_is_here_already_comes_in_as_another(store: Store) -> None:
    session, messages = put(store, "t", *"abcdefgh")
    text = to_json([(store.session(session.id), messages)])
    store.delete(session.id)  # its ids are taken all the same
    (outcome,) = import_json(store, text, "x")
    copies = store.messages(outcome.session.id)
    assert outcome.renumbered and outcome.session.id != session.id
    assert [m.content for m in copies] == list("abcdefgh")
    assert [m.parent_id for m in copies] == [None, *[m.id for m in copies[:-1]]]
    assert store.session(outcome.session.id).leaf_id == copies[-1].id
    assert {m.id for m in copies}.isdisjoint(m.id for m in messages)
    store.undelete(session.id)
    assert store.messages(session.id) == messages


def test_a_chat_without_messages_comes_in_as_another_too(store: Store) -> None:
    session, _ = put(store, "empty")
    (outcome,) = import_json(store, to_json([(session, [])]), "x")
    assert outcome.renumbered and len(store.sessions()) == 2


def test_a_reply_exported_while_it_streamed_is_interrupted(store: Store) -> None:
    session, (question, reply) = chat("t", "q", "half")
    import_json(store, to_json([(session, [question, replace(reply, state="streaming")])]), "x")
    assert store.messages(session.id)[1].state == "interrupted"


def broken(**changes: object) -> str:
    session, messages = chat("t", "q")
    document = json.loads(to_json([(session, messages)]))
    for key, value in changes.items():
        owner = document if key in document else document["chats"][0]
        owner = owner if key in owner else owner["messages"][0]
        owner[key] = value
    return json.dumps(document)


FOREIGN = [
    "",
    "no json",
    "[1]",
    "null",
    '{"messages": []}',
    "[" * 100_000,
    broken(format="other"),
    broken(version=2),
    broken(chats=None),
    broken(chats=[7]),
    broken(messages=[{"id": "x"}]),
    broken(role="system"),
    broken(state="odd"),
    broken(content=7),
    broken(timing={"a": "b"}),
    broken(tool_calls=[{}]),
    broken(created="now"),
]


@pytest.mark.parametrize("text", FOREIGN, ids=map(str, range(len(FOREIGN))))  # the texts have new ids in every run
def test_foreign_json_is_refused_in_one_line_and_adds_nothing(store: Store, text: str) -> None:
    with pytest.raises(UsageError) as error:
        import_json(store, text, "a\nfile.json")
    assert "\n" not in error.value.message and "a\\nfile.json" in error.value.message
    assert store.sessions() == []


def test_halves_of_characters_in_a_file_are_mended(store: Store) -> None:
    """S04"""
    import_json(store, broken(content="\ud83d", title="\ud83d\udc3a", id="\udc3a"), "x")
    (listed,) = store.sessions()
    assert (listed.session.title, listed.preview) == ("🐺", "\ufffd")


def many(count: int, size: int) -> tuple[Session, list[Message]]:
    """A chat of `count` messages of `size` characters, each with a word of its own at the end."""
    return chat("many", *[("words " * (size // 6)) + f"unique{number:05}" for number in range(count)])


def test_a_large_import_says_how_far_it_is_and_can_be_searched(store: Store) -> None:
    session, messages = many(60, 50_000)
    told: list[tuple[int, int]] = []
    text = to_json([chat("first", "q"), (session, messages)])
    import_json(store, text, "x", lambda done, total: told.append((done, total)))
    size = 1 + sum(len(message.content) for message in messages)
    assert [total for _, total in told] == [size] * 3  # a batch a megabyte, and nothing at the end
    assert told == sorted(told) and 0.25 < told[0][0] / size < 0.34 and told[-1][0] < size
    assert store.messages(session.id) == messages
    assert [hit.message_id for hit in store.search("unique00059")] == [messages[59].id]
    assert len(store.search("words", 100)) == 60
    import_json(store, to_json([chat("small", "q", "a")]), "x", pytest.fail)


def test_an_import_that_is_stopped_leaves_nothing(store: Store) -> None:
    put(store, "here", "unique00000 too")
    session, messages = many(60, 50_000)

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_json(store, to_json([chat("first", "q"), (session, messages)]), "x", stop)
    assert [one.session.title for one in store.sessions()] == ["here"]
    assert len(store.search("unique00000")) == 1
    (outcome,) = import_json(store, to_json([(session, messages)]), "x")
    assert (outcome.added, outcome.renumbered) == (60, False)


def test_two_chats_of_a_file_with_one_id_both_come_in(store: Store) -> None:
    session, messages = chat("twice", "q", "a")
    first, second = import_json(store, to_json([(session, messages), (session, messages)]), "x")
    assert (first.renumbered, second.renumbered) == (False, True)
    for one in (first, second):
        assert [message.content for message in store.messages(one.session.id)] == ["q", "a"]
