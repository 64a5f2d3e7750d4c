"""The only place that knows which tokens a decoder's cache holds.

What it knows grows when a forward call has succeeded and at no other time, so whatever ends a reply (a stop token, a
limit, a cancel, a closed iterator, an error inside the decoder) the next prompt is answered as from a cold start.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from app.engine.decoder import Decoder, Interrupted
from app.engine.draw import Floats


class KnownCache:
    """A decoder that nobody else feeds, and what is in its cache."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self._tokens: list[int] = []
        self._cancelled = threading.Event()

    def __len__(self) -> int:
        return len(self._tokens)

    def begin(self) -> None:
        """A reply begins: what was cancelled before is no matter of it."""
        self._cancelled.clear()

    def cancel(self) -> None:
        """End the reply that runs now, within one step. From any thread."""
        self._cancelled.set()
        self.decoder.interrupt()

    def raise_if_cancelled(self) -> None:
        """Raises Interrupted."""
        if self._cancelled.is_set():
            raise Interrupted

    def keep_prefix(self, prompt: Sequence[int]) -> int:
        """Keep the longest prefix of `prompt`, without its last token, and drop the rest; how many tokens it has."""
        length = min(_common_prefix(prompt, self._tokens), len(prompt) - 1, self.decoder.length)
        self.decoder.truncate(length)
        del self._tokens[length:]
        return length

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        if length < len(self._tokens):
            self.decoder.truncate(length)
            del self._tokens[length:]

    def forward(self, tokens: Sequence[int], n_logits: int) -> Floats:
        """`Decoder.forward`. Raises Interrupted if the reply has been cancelled."""
        self.raise_if_cancelled()
        try:
            logits = self.decoder.forward(tokens, n_logits)
        except Interrupted:
            self.raise_if_cancelled()
            # A cancel that came after the last forward call of an earlier reply: it was not meant for this one.
            logits = self.decoder.forward(tokens, n_logits)
        self._tokens.extend(tokens)
        return logits

    def note(self, tokens: Sequence[int]) -> None:
        """A device that runs by itself has put them into its cache."""
        self._tokens.extend(tokens)


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many first tokens are the same in both."""
    differences = (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(differences, min(len(a), len(b)))
