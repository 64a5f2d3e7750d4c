"""Search: what a person types is looked for as it stands, in what was said and in titles."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.chat.conversation import new_message
from app.chat.search import SearchHit
from app.chat.store import Store
from tests.chat.stores import put


def marked(hit: SearchHit) -> list[str]:
    return [hit.snippet[start:end] for start, end in hit.matches]


def test_a_hit_says_where_and_what(store: Store) -> None:
    session, (question, reply) = put(store, "Zebras", "Where do they live?", "In the savanna.\n\nMostly  in Africa.")
    (hit,) = store.search("AFRICA")
    assert hit == SearchHit(
        session.id, "Zebras", reply.id, "assistant", reply.created, "In the savanna. Mostly in Africa.", ((26, 32),)
    )
    (title,) = store.search("zebra")
    assert (title.session_id, title.message_id, title.role, marked(title)) == (session.id, None, None, ["Zebra"])
    assert [hit.message_id for hit in store.search("they")] == [question.id]


def test_every_word_has_to_occur_long_or_short(store: Store) -> None:
    _, (both, one, two) = put(store, "", "red fox is up", "a red hen", "the fox is up")
    for query, expected in {
        "red fox": {both.id},
        "fox red up": {both.id},
        "up": {both.id, two.id},
        "is fox": {both.id, two.id},
        "re": {both.id, one.id},
        "red cow": set(),
        "hen up": set(),
        "  ": set(),
    }.items():
        assert {hit.message_id for hit in store.search(query)} == expected, query


SYNTAX = [
    'say "hi" now',
    "a* b*",
    "NEAR(a b)",
    "x AND y",
    "col:val",
    "50%_off",
    "(((",
    '"',
    "--",
    "c++ ^2",
    "it's",
    "-x",
]


@pytest.mark.parametrize("text", SYNTAX)
def test_nothing_that_is_typed_is_query_syntax(store: Store, text: str) -> None:
    put(store, "", "something else: hi now a b x y col val 50 off c it s", f"before {text} after")
    hits = store.search(text)
    assert [f"before {text} after" == hit.snippet for hit in hits] == [True]


def test_words_are_found_inside_words_and_in_any_script_and_case(store: Store) -> None:
    put(store, "", "Überraschungsei", "他说你好世界", "ΑΘΗΝΑ")
    for query in ("raschung", "ÜBERRASCH", "你好世", "你好", "αθηνα"):
        (hit,) = store.search(query)
        assert [text.lower() for text in marked(hit)] == [query.lower()]


def test_thinking_is_not_searched(store: Store) -> None:
    session, _ = put(store, "t")
    store.put_message(session.id, new_message(None, "assistant", "plain", thinking="needle"))
    assert store.search("needle") == []


def test_the_better_match_comes_first_then_the_newer(store: Store) -> None:
    _, (older, dense, newer) = put(store, "", "a word and more", "word word", "a word and more")
    assert [hit.message_id for hit in store.search("word")] == [dense.id, newer.id, older.id]
    assert [hit.message_id for hit in store.search("word", 2)] == [dense.id, newer.id]
    assert len(store.search("wo", 2)) == 2


def test_a_long_message_is_shown_around_its_match(store: Store) -> None:
    put(store, "", f"{'x' * 5000} needle {'y' * 5000}")
    (hit,) = store.search("needle")
    assert len(hit.snippet) < 200 and hit.snippet.startswith("…") and hit.snippet.endswith("…")
    assert marked(hit) == ["needle"]


def test_a_reply_is_found_while_it_streams_and_indexed_once_when_it_ends(store: Store, path: Path) -> None:
    session, (_, reply) = put(store, "", "q", "")
    for text in ("a nee", "a needle"):
        store.put_message(session.id, replace(reply, content=text, state="streaming"))

    def indexed() -> list[tuple[int, int]]:
        """How many messages hold "needle", and how often, by the index alone."""
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, message_text, row)")
            return raw.execute("SELECT doc, cnt FROM temp.terms WHERE term = 'dle'").fetchall()

    assert [hit.message_id for hit in store.search("needle")] == [reply.id]
    assert indexed() == []
    for _ in range(2):
        store.put_message(session.id, replace(reply, content="a needle", state="stop"))
    assert [hit.message_id for hit in store.search("needle")] == [reply.id]
    assert indexed() == [(1, 1)]
    store.put_message(session.id, replace(reply, content="nothing", state="stop"))
    assert store.search("needle") == []
    assert indexed() == []
