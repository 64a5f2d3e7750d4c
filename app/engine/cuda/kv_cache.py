"""The KV cache of one conversation on the device: pages of CHUNK positions, made when they are needed.

A page holds keys and values of all layers (kernels/kv_page.cuh), so a long context costs nothing until it is used, and
growing never copies.
"""

from __future__ import annotations

import numpy as np

from app.engine.cuda.device import Buffer, Device
from app.engine.cuda.layout import CHUNK
from app.engine.spec import ModelSpec
from app.errors import UsageError

ELEMENT_BYTES = {"f32": 4, "f16": 2, "q8_0": 1}
SCALE_COLUMNS = 32  # numbers that share a scale in a q8_0 cache


def head_stride(spec: ModelSpec, kind: str) -> int:
    """Bytes of one (layer, KV head) in a page. UsageError for a kind that the shape forbids."""
    if kind == "q8_0" and spec.head_dim % SCALE_COLUMNS:
        raise UsageError(f"a q8_0 cache needs a head size that is a multiple of {SCALE_COLUMNS}", "use --kv f16")
    numbers = CHUNK * spec.head_dim
    return 2 * (numbers * ELEMENT_BYTES[kind] + (numbers // SCALE_COLUMNS * 2 if kind == "q8_0" else 0))


def page_bytes(spec: ModelSpec, kind: str) -> int:
    """Bytes of CHUNK positions."""
    return head_stride(spec, kind) * spec.n_layers * spec.n_kv_heads


class CudaKVCache:
    """Pages for up to `n_ctx` positions; `length` of them hold a token."""

    def __init__(self, spec: ModelSpec, kind: str, n_ctx: int, device: Device) -> None:
        self.length = 0
        self.page_bytes = page_bytes(spec, kind)
        self._device = device
        self._pages: list[Buffer] = []
        self._addresses = np.zeros(-(-n_ctx // CHUNK), np.uint64)
        self._table: Buffer | None = device.allocate(self._addresses.nbytes)
        self.table: int = self._table.address

    def reserve(self, length: int) -> None:
        """Have pages for `length` positions. Raises MemoryError."""
        if len(self._pages) * CHUNK >= length:
            return
        while len(self._pages) * CHUNK < length:
            page = self._device.allocate(self.page_bytes)
            self._addresses[len(self._pages)] = page.address
            self._pages.append(page)
        assert self._table is not None
        self._device.write(self._table, self._addresses)

    def truncate(self, length: int) -> None:
        """Keep the first `length` positions and give back whole pages behind them."""
        self.length = length
        del self._pages[-(-length // CHUNK) :]

    def close(self) -> None:
        """Give everything back."""
        self.truncate(0)
        self._table = None

    @property
    def room(self) -> int:
        """Positions of the pages that exist."""
        return len(self._pages) * CHUNK

    @property
    def n_bytes(self) -> int:
        """Bytes of the pages that exist."""
        return len(self._pages) * self.page_bytes
