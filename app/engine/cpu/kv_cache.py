"""The KV cache of one conversation: pages of CHUNK positions, made when they are needed and dropped when they are not.

A page holds keys and values of all layers (its layout is in kernels/attention.py), so a long context costs nothing
until it is used, and growing never copies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.engine.cpu.layout import CHUNK, KV_F16, KV_F32, KV_Q8_0
from app.engine.memory import private_memory
from app.engine.spec import ModelSpec
from app.errors import UsageError

KINDS = {"f32": KV_F32, "f16": KV_F16, "q8_0": KV_Q8_0}
ELEMENT_BYTES = {"f32": 4, "f16": 2, "q8_0": 1}
SCALE_COLUMNS = 32  # numbers that share a scale in a q8_0 cache


class KVCache:
    """Pages for up to `n_ctx` positions; `length` of them hold a token. UsageError for a kind the shape forbids."""

    def __init__(self, spec: ModelSpec, kind: str, n_ctx: int) -> None:
        if kind == "q8_0" and spec.head_dim % SCALE_COLUMNS:
            raise UsageError(f"a q8_0 cache needs a head size that is a multiple of {SCALE_COLUMNS}", "use --kv f16")
        self.kind = KINDS[kind]
        self.length = 0
        numbers = CHUNK * spec.head_dim
        scales = numbers // SCALE_COLUMNS * 2 if kind == "q8_0" else 0
        self.head_stride = 2 * (numbers * ELEMENT_BYTES[kind] + scales)
        self.page_bytes = self.head_stride * spec.n_layers * spec.n_kv_heads
        self._pages: list[NDArray[np.uint8]] = []
        self.table = np.zeros(-(-n_ctx // CHUNK), np.int64)  # page addresses, as the kernels read them

    def reserve(self, length: int) -> None:
        """Have pages for `length` positions."""
        while len(self._pages) * CHUNK < length:
            page = np.frombuffer(private_memory(self.page_bytes), np.uint8)
            self.table[len(self._pages)] = page.ctypes.data
            self._pages.append(page)

    def truncate(self, length: int) -> None:
        """Keep the first `length` positions and give back whole pages behind them."""
        self.length = length
        del self._pages[-(-length // CHUNK) :]
        self.table[len(self._pages) :] = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of the pages that exist."""
        return len(self._pages) * self.page_bytes
