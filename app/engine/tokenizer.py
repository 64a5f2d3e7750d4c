"""Text to token ids and back, with the vocabulary, merges and splitting rule that a GGUF file carries.

The merging itself is in `words.py`; this file decides which text may become a control token.
Ids equal those of llama.cpp on the same file (docs/decisions/tokenizer-reference.md): text is not normalised.

A prompt comes as segments. The chat template's own text is trusted: `<|im_end|>` in it is the control token. What a
person, a file or a tool wrote is not: the same characters there are six ordinary tokens, so nobody can forge a turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from app.engine.vocabulary import Vocabulary, read_vocabulary
from app.engine.words import Words
from app.errors import UsageError

if TYPE_CHECKING:
    from app.engine.gguf import GGUFFile

# The regular expressions may step back once a character, and their engine panics after ten million steps; no context
# window holds this much text.
_MAX_CHARACTERS = 8_000_000

_SURROGATE = re.compile("[\ud800-\udfff]")


def _byte_alphabet() -> dict[int, int]:
    """Code point of the character that stands for a byte in byte-level tokens -> that byte (GPT-2's table)."""
    printable_bytes = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable_bytes))
    return {byte: byte for byte in printable_bytes} | {256 + n: byte for n, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()
_ALPHABET = frozenset(map(chr, _BYTE_OF))


class SegmentLike(Protocol):
    """A stretch of prompt text and whether the chat template itself wrote it."""

    @property
    def text(self) -> str: ...
    @property
    def trusted(self) -> bool: ...


@dataclass(frozen=True)
class Segment:
    """A stretch of prompt text; control tokens in it are real only if it is trusted (the template wrote it)."""

    text: str
    trusted: bool


class Tokenizer:
    """One model's tokenizer. Immutable after construction; any thread may use it.

    control_tokens: text -> id of the tokens that only trusted text can become.
    eos_ids: the ids that end a reply: the file's own and those that do by name.
    bos_id, add_bos: the begin token, and whether a prompt starts with one (`encode_prompt` sees to it).
    vocab_size: number of tokens; ids are 0 .. vocab_size - 1.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.control_tokens = vocabulary.control_tokens
        self.eos_ids = vocabulary.eos_ids
        self.bos_id = vocabulary.bos_id
        self.add_bos = vocabulary.add_bos
        self.vocab_size = len(vocabulary.tokens)
        self._control_texts = {token_id: text for text, token_id in self.control_tokens.items()}
        longest_first = sorted(self.control_tokens, key=len, reverse=True)
        self._control_pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._tokens = vocabulary.tokens
        self._words = Words(vocabulary)
        known = (byte for point, byte in _BYTE_OF.items() if self._words.token_id(chr(point)) is not None)
        self._known_bytes = bytes(known)

    @classmethod
    def from_gguf(cls, gguf: GGUFFile) -> Self:
        """The tokenizer of a model file; raises as `read_vocabulary` does."""
        return cls.from_metadata(gguf.metadata)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """The tokenizer that the `tokenizer.ggml.*` keys describe; raises as `read_vocabulary` does."""
        return cls(read_vocabulary(metadata))

    def encode(self, segments: Iterable[SegmentLike]) -> list[int]:
        """The ids of the segments' text, read as one.

        Control tokens are found, longest first, only where they lie wholly in trusted text (which may span several
        trusted segments). Each stretch between them is tokenised as one text, whoever wrote its parts. A surrogate pair
        counts as its character and a lone surrogate as U+FFFD. Raises UsageError for a character that the vocabulary
        has no bytes for (llama.cpp would drop it), and for text beyond every context window.
        """
        text, trusted_spans = _joined(segments)
        ids: list[int] = []
        start = 0
        for begin, end in trusted_spans:
            for match in self._control_pattern.finditer(text, begin, end):
                ids += self._encode_words(text[start : match.start()])
                ids.append(self.control_tokens[match.group()])
                start = match.end()
        return ids + self._encode_words(text[start:])

    def encode_text(self, text: str) -> list[int]:
        """The ids of somebody's text; nothing in it becomes a control token. Raises as `encode` does."""
        return self.encode([Segment(text, trusted=False)])

    def encode_prompt(self, segments: Iterable[SegmentLike]) -> list[int]:
        """`encode`, led by exactly one begin token where the model wants one, whether the template wrote it or not."""
        ids = self.encode(segments)
        if self.add_bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            return [self.bos_id, *ids]
        return ids

    def decode(self, token_ids: Iterable[int]) -> str:
        """The text of the ids, control tokens as their own text; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(map(self.token_bytes, token_ids)).decode("utf-8", errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that one token stands for; raises ValueError for an id outside the vocabulary."""
        if not 0 <= token_id < self.vocab_size:
            raise ValueError(f"token id {token_id} is outside the vocabulary of {self.vocab_size:,}")
        token = self._tokens[token_id]
        # A control token, and any other that is not written in the byte alphabet, stands for its own characters.
        if token_id in self._control_texts or not _ALPHABET.issuperset(token):
            return token.encode()
        return token.translate(_BYTE_OF).encode("latin-1")

    def token_text(self, token_id: int) -> str:
        """One token as text, for showing; a part of a character is U+FFFD."""
        return self.decode([token_id])

    def is_control(self, token_id: int) -> bool:
        """Whether only trusted text can become this token."""
        return token_id in self._control_texts

    def _encode_words(self, text: str) -> list[int]:
        if not text:
            return []
        if unknown := text.encode().translate(None, delete=self._known_bytes):
            raise _inexpressible(text, unknown)
        if len(text) > _MAX_CHARACTERS:
            raise UsageError(f"a text of {len(text):,} characters is more than a model can read", "shorten it")
        return self._words.encode(text)


def _joined(segments: Iterable[SegmentLike]) -> tuple[str, list[tuple[int, int]]]:
    """The whole text and the spans of it that are trusted; neighbouring trusted segments share a span."""
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    length = 0
    for segment in segments:
        part = _well_formed(segment.text)
        end = length + len(part)
        if segment.trusted and spans and spans[-1][1] == length:
            spans[-1] = (spans[-1][0], end)
        elif segment.trusted:
            spans.append((length, end))
        parts.append(part)
        length = end
    return "".join(parts), spans


def _well_formed(text: str) -> str:
    """`text` with surrogate pairs joined and each lone surrogate replaced by U+FFFD, so that it has a UTF-8 form."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _inexpressible(text: str, unknown: bytes) -> UsageError:
    character = next(c for c in text if unknown[0] in c.encode())
    return UsageError(
        f"this model's vocabulary has no token for the character U+{ord(character):04X}",
        "take it out of the text, or use another model",
    )
