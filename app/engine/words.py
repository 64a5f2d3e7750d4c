"""Splitting text into words and merging their bytes into tokens (byte-level BPE).

Two ways give the same ids. Setting up Hugging Face's `tokenizers` with a vocabulary of 150,000 takes half a second of
processor time, and then it merges quickly; a lookup for every merge takes nothing to set up, and is slow. So the first
texts are merged in the second way, until they have cost about as much as the first would have.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from tokenizers import Regex
from tokenizers import Tokenizer as WordMerger
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Split
from tokenizers.pre_tokenizers import Sequence as Steps

from app.engine.text_index import joins
from app.engine.vocabulary import Vocabulary, merges_making
from app.errors import ModelFileError, printable

SMALL_TEXT = 100_000  # characters of words that were not met before; about 3 us each
LONG_WORD = 200  # characters; looking up takes the square of it
_NEVER = 1 << 62  # the rank of a pair that no merge joins


class Words:
    """The ids of ordinary text. Control tokens are no part of it, so no text can reach them. Any thread may call it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Raises ModelFileError where a merge doesn't join two tokens into a third."""
        self._vocabulary = vocabulary
        self._control = frozenset(vocabulary.control_tokens.values())
        self._forbidden = frozenset(merges_making(vocabulary.control_tokens, vocabulary.merge_ranks))
        self._check_merges()
        splits: list[PreTokenizer] = [Split(Regex(pattern), "isolated") for pattern in vocabulary.rule.patterns]
        self._split = Steps([*splits, ByteLevel(add_prefix_space=False, use_regex=False)])
        self._known: dict[str, list[int]] = {}  # ids of the words that were met
        self._ranks: dict[tuple[str, str], int] = {}  # of the pairs that were met
        self._spent = 0  # characters of the words in `_known`
        self._merger: WordMerger | None = None

    def token_id(self, text: str) -> int | None:
        """The id of an ordinary token, in the byte alphabet."""
        token_id = self._vocabulary.ids.find(text)
        return None if token_id in self._control else token_id

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, all of whose bytes are tokens."""
        if self._merger is None:
            words = [word for word, _ in self._split.pre_tokenize_str(text)] if len(text) <= SMALL_TEXT else []
            new = {word for word in words if word not in self._known}
            self._spent += sum(map(len, new)) if words else len(text)
            if self._spent <= SMALL_TEXT and all(len(word) <= LONG_WORD for word in new):
                self._known |= {word: self._ids(word) for word in new}
                return [token_id for word in words for token_id in self._known[word]]
            self._merger = self._quick_merger()
            self._known, self._ranks = {}, {}
        ids: list[int] = self._merger.encode(text, add_special_tokens=False).ids
        return ids

    def _ids(self, word: str) -> list[int]:
        """The best merge that is possible first, the leftmost of equal ones, until there is none."""
        if self._vocabulary.rule.whole_words and (token_id := self.token_id(word)) is not None:
            return [token_id]
        parts = list(word)
        ranks = [self._rank(*pair) for pair in pairwise(parts)]
        while ranks and (best := min(ranks)) != _NEVER:
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            del ranks[at]
            if at > 0:
                ranks[at - 1] = self._rank(parts[at - 1], parts[at])
            if at < len(ranks):
                ranks[at] = self._rank(parts[at], parts[at + 1])
        ids = [self._vocabulary.ids.find(part) for part in parts]
        return [token_id for token_id in ids if token_id is not None]

    def _rank(self, left: str, right: str) -> int:
        rank = self._ranks.get((left, right))
        if rank is None:
            found = self._vocabulary.merge_ranks.find(f"{left} {right}")
            rank = self._ranks[left, right] = _NEVER if found is None or found in self._forbidden else found
        return rank

    def _check_merges(self) -> None:
        vocabulary = self._vocabulary
        no_text = [*self._control, vocabulary.ids.find("")]
        parts = vocabulary.ids.hashes(without=np.array([i for i in no_text if i is not None], np.int64))
        good = joins(vocabulary.merges, parts)
        good[list(self._forbidden)] = True
        if not good.all():
            left, _, right = vocabulary.merges[int(good.argmin())].partition(" ")
            raise ModelFileError(
                f'the merge "{printable(f"{left} {right}")}" does not join two tokens of the vocabulary into a third',
                "the tokenizer in the model file is damaged: fetch or convert it again",
            )

    def _quick_merger(self) -> WordMerger:
        vocabulary = self._vocabulary
        ids = {token: i for i, token in enumerate(vocabulary.tokens) if token and i not in self._control}
        merges = (merge.partition(" ") for i, merge in enumerate(vocabulary.merges) if i not in self._forbidden)
        pairs = [(left, right) for left, _, right in merges]
        merger = WordMerger(BPE(ids, pairs, ignore_merges=vocabulary.rule.whole_words))
        merger.pre_tokenizer = self._split
        return merger
