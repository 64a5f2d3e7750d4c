"""Memory as the kernels want it: zeroed, and in whole cache lines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.engine.cpu.layout import CACHE_LINE


def aligned(count: int, kind: type[np.generic]) -> NDArray[np.generic]:
    """Zeroed elements that begin on a cache line."""
    size = np.dtype(kind).itemsize
    raw = np.zeros(count * size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + count * size].view(kind)


def round_up(size: int) -> int:
    """To whole cache lines."""
    return -(-size // CACHE_LINE) * CACHE_LINE


def float_bits(number: float) -> int:
    """A float32 in the low half of a table word."""
    return int(np.float32(number).view(np.int32))
