"""A decoder whose logits are a hash of everything in its cache, so that any wrong token left there changes the reply.

It can be told to fail at a given forward call, and to run something (a cancel, say) in the middle of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from app.engine.decoder import Interrupted
from app.engine.spec import ModelSpec

VOCAB = 32  # of 16-bit scores: one BLAKE2b digest
STOP = 31
PIECES = {token: bytes([ord("a") + token]) if token < 26 else "€".encode()[token % 3 :][:1] for token in range(VOCAB)}


class ScriptedTokenizer:
    """Token ids 0 .. 25 are letters; the others are single bytes of a three-byte character, seldom in order."""

    eos_ids = frozenset({STOP})

    def token_bytes(self, token_id: int) -> bytes:
        return PIECES[token_id]


class ScriptedDecoder:
    """`during` maps the number of a forward call (from 0) to what happens after half of its tokens are stored."""

    spec: ModelSpec  # unused

    def __init__(self, n_ctx: int = 64, chunk: int = 8, during: Mapping[int, Callable[[], None]] | None = None) -> None:
        self.n_ctx = n_ctx
        self.chunk = chunk
        self.during = during or {}
        self.calls: list[tuple[int, int]] = []  # (tokens, n_logits) of every forward call
        self.cache: list[int] = []
        self._interrupt = False

    @property
    def length(self) -> int:
        return len(self.cache)

    def truncate(self, length: int) -> None:
        assert 0 <= length <= len(self.cache)
        del self.cache[length:]

    def forward(self, tokens: Sequence[int], n_logits: int) -> np.ndarray:
        assert 0 < len(tokens) <= self.chunk
        assert 0 <= n_logits <= len(tokens)
        assert self.length + len(tokens) <= self.n_ctx
        number = len(self.calls)
        self.calls.append((len(tokens), n_logits))
        old_length = self.length
        self.cache += tokens[: (len(tokens) + 1) // 2]
        self.during.get(number, lambda: None)()
        if self._interrupt:
            self._interrupt = False
            self.truncate(old_length)
            raise Interrupted
        self.cache += tokens[(len(tokens) + 1) // 2 :]
        ends = range(self.length - n_logits + 1, self.length + 1)
        return np.array([logits_after(self.cache[:end]) for end in ends], np.float32).reshape(n_logits, VOCAB)

    def interrupt(self) -> None:
        self._interrupt = True


def logits_after(tokens: Sequence[int]) -> np.ndarray:
    """The scripted network: float32 [VOCAB], between 0 and 16."""
    digest = hashlib.blake2b(bytes(tokens), digest_size=2 * VOCAB).digest()
    return np.frombuffer(digest, "<u2").astype(np.float32) / 4096
