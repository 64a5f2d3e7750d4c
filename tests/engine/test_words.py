"""Two ways of merging, one set of ids; and what is looked up in a vocabulary without an object for each token."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine import words
from app.engine.strings import WINDOW, Strings, locate, pass_over
from app.engine.text_index import PRIME, TextIndex, joins
from app.engine.vocabulary import Vocabulary, read_vocabulary
from app.engine.words import LONG_WORD, Words
from app.errors import ModelFileError
from tests.engine.test_tokenizer import SCRIPTS, VARIED
from tests.gguf_files import tokenizer_metadata
from tests.qwen_vocabulary import qwen_metadata

TEXTS = [*VARIED, *(text[start : start + 300] for text in SCRIPTS for start in range(0, len(text), 1_500))]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return read_vocabulary(qwen_metadata())


class RefusedError(Exception):
    """What is not to be used was used."""


def refuse(*_: object) -> None:
    raise RefusedError


def test_looking_up_gives_the_ids_of_tokenizers(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, slow = Words(vocabulary), Words(vocabulary)
    with monkeypatch.context() as patch:
        patch.setattr(words, "SMALL_TEXT", -1)
        patch.setattr(words.Words, "_ids", refuse)
        wanted = [quick.encode(text) for text in TEXTS]
    monkeypatch.setattr(words, "LONG_WORD", 2_000)
    monkeypatch.setattr(words, "SMALL_TEXT", 1_000_000)
    monkeypatch.setattr(words.Words, "_quick_merger", refuse)
    assert [slow.encode(text) for text in TEXTS] == wanted
    assert [slow.encode(text) for text in TEXTS] == wanted  # from the words that are known by now


def test_a_long_word_and_much_text_are_left_to_tokenizers(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "SMALL_TEXT", 100)
    monkeypatch.setattr(words.Words, "_quick_merger", refuse)
    for text in ("a" * (LONG_WORD + 1), "".join(f" word{n}" for n in range(20)), "a " * 51):
        with pytest.raises(RefusedError):
            Words(vocabulary).encode(text)
    used = Words(vocabulary)
    for _ in range(100):
        used.encode("the same few words")  # cost nothing the second time


def test_a_merge_that_no_text_needs_is_checked_all_the_same() -> None:
    metadata = tokenizer_metadata() | {"tokenizer.ggml.merges": ["h e", "l o", "Ã ¤"]}
    with pytest.raises(ModelFileError, match='merge "l o" does not join'):
        Words(read_vocabulary(metadata))


def test_a_token_of_endless_length_is_refused() -> None:
    metadata = tokenizer_metadata()
    metadata["tokenizer.ggml.tokens"] = [*metadata["tokenizer.ggml.tokens"][:-1], "x" * 70_000]
    with pytest.raises(ModelFileError, match="an entry of 70,000 bytes"):
        read_vocabulary(metadata)


# ------------------------------------------------------------------------------------ tables of strings


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(max_size=6) | st.sampled_from(["", "a\0", "\0" * 9, "x" * 300, "é" * 130]), unique=True))
def test_every_text_is_found_where_it_stands(texts: list[str]) -> None:
    strings = Strings.of(texts)
    index = TextIndex(strings)
    assert strings == texts
    assert [index.find(text) for text in texts] == list(range(len(texts)))
    assert index.repeated() is None
    for other in ("a\0\0", "not there", "x" * 299):
        assert (index.find(other) is None) == (other not in texts)


def test_texts_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the prime 1 a hash is the sum of the bytes, so that all anagrams have the same."""
    monkeypatch.setattr("app.engine.text_index.PRIME", 1)
    monkeypatch.setattr("app.engine.text_index._INVERSE", 1)
    texts = ["abc", "acb", "bca", "cab", "x"]
    index = TextIndex(Strings.of(texts))
    assert [index.find(text) for text in texts] == [0, 1, 2, 3, 4]
    assert index.find("cba") is None
    assert index.repeated() is None
    assert TextIndex(Strings.of([*texts, "abc"])).repeated() == "abc"
    assert PRIME % 2 == 1


def test_which_pairs_join_to_a_known_text() -> None:
    known = TextIndex(Strings.of(["a", "b", "ab", "é", "abé", "c", ""])).hashes(without=np.array([5, 6]))
    pairs = {"a b": True, "ab é": True, "b a": False, "a c": False, "ab": False, "a  b": False, " ab": False, "": False}
    assert joins(Strings.of(pairs), known).tolist() == list(pairs.values())


def stored(texts: list[bytes]) -> bytes:
    return b"".join(struct.pack("<Q", len(text)) + text for text in texts)


@pytest.mark.parametrize(
    "texts",
    [
        [b""] * 40,
        [b"ab", b"\0\0\0\0\0\0\0\0\0\0", b"\1\0\0\0\0\0\0\0x", b"c"],
        [b"x" * 255, b"y" * 256, b"z" * 257] * 3,
        [bytes([n % 251]) * (n % 40) for n in range(9_000)],
        [b"a", b"b" * (3 * WINDOW), b"c"],
        [b"q" * (WINDOW - 20), b"ab", b"cd", b"ef"],
    ],
    ids=["empty", "like lengths", "long", "many", "wider than a window", "across a window"],
)
def test_strings_are_located_whatever_they_hold(texts: list[bytes]) -> None:
    header = b"###" + stored(texts) + b"what follows"
    begins, ends = locate(header, 3, len(texts))
    assert [header[begin:end] for begin, end in zip(begins, ends, strict=True)] == texts

    assert pass_over(header, 3, len(texts)) == (len(texts), 3 + len(stored(texts)))


@given(st.lists(st.text("\0\1a", max_size=12) | st.text("ab", max_size=300), max_size=60), st.integers(0, 30))
def test_strings_that_look_like_lengths_are_located(texts: list[str], cut: int) -> None:
    strings = [text.encode() for text in texts]
    whole = stored(strings)
    header = whole[: len(whole) - cut]
    ends = [len(stored(strings[: n + 1])) for n in range(len(strings))]
    fitting = [end for end in ends if end <= len(header)]
    assert locate(header, 0, len(strings))[1].tolist() == fitting
    assert pass_over(header, 0, len(strings)) == (len(fitting), fitting[-1] if fitting else 0)


@pytest.mark.parametrize("octet", range(1, 8))
@pytest.mark.parametrize("index", [0, 1, 2, 3, 4])
def test_every_byte_of_a_length_counts(index: int, octet: int) -> None:
    header = bytearray(stored([b"a" * 13] * 5))  # 21 bytes each, so that each lies at another place of its word
    header[21 * index + octet] = 1
    assert locate(bytes(header), 0, 5)[1].tolist() == [21 * n for n in range(1, index + 1)]


@pytest.mark.parametrize("missing", [1, 2, 3, 9, 10])
def test_strings_that_do_not_fit_are_left_out(missing: int) -> None:
    header = stored([b"abc", b"de", b"fg"])[:-missing]
    assert locate(header, 0, 3)[1].tolist() == [11, 21]
    assert pass_over(header, 0, 3) == (2, 21)
