"""Text out of token ids one at a time, without ever cutting a character in two.

A token is a run of bytes, and a character may be spread over several tokens, so ids cannot be turned into text one by
one. Stop strings, the `<think>` splitter and the screen all sit behind this decoder and see whole characters only.
"""

from __future__ import annotations

import codecs
from typing import Protocol


class HasTokenBytes(Protocol):
    """What the decoder needs of a tokenizer."""

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token stands for."""


class StreamDecoder:
    """Decodes a reply as it grows: each `push` returns the characters that its token completed.

    Bytes that may still become a character are held back; bytes that cannot become U+FFFD at once, one for each
    maximal ill-formed part (Unicode 16, section 3.9, as in Python's `errors="replace"`). After `flush`, everything that
    was returned, joined, equals `Tokenizer.decode` of all the ids.
    """

    def __init__(self, tokenizer: HasTokenBytes) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """The characters that became complete with this token; often one word, sometimes nothing."""
        return self._decoder.decode(self._tokenizer.token_bytes(token_id))

    def flush(self) -> str:
        """The end of the reply: one U+FFFD if it broke off inside a character, else nothing."""
        return self._decoder.decode(b"", final=True)
