"""A decoder that keeps a hash of the logits after each position, to compare two ways to the same reply bit by bit."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.cpu.decoder import CpuDecoder
from tests.engine.decoders import Floats, digest


class Witness:
    """Stands in for `decoder`. `seen[i]` is of the logits after token i, as they were computed last."""

    def __init__(self, decoder: CpuDecoder) -> None:
        self._decoder = decoder
        self.spec, self.n_ctx, self.chunk = decoder.spec, decoder.n_ctx, decoder.chunk
        self.truncate, self.interrupt = decoder.truncate, decoder.interrupt
        self.seen: dict[int, str] = {}
        self.rows: list[int] = []  # of every step

    @property
    def length(self) -> int:
        return self._decoder.length

    def forward(self, tokens: Sequence[int], n_logits: int) -> Floats:
        logits = self._decoder.forward(tokens, n_logits)
        self.rows.append(len(tokens))
        for i, row in enumerate(logits, self.length - n_logits):
            self.seen[i] = digest(row)
        return logits

    def after(self, start: int, count: int) -> list[str | None]:
        """The hashes of `count` positions from `start` on."""
        return [self.seen.get(i) for i in range(start, start + count)]
