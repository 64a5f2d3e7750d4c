"""What lies in device memory, put together and taken apart by NumPy: packed weights, activations, pages of the cache.

Written from the descriptions in kernels/formats.cuh, activations.cuh and kv_page.cuh, not from the code below them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.cuda.layout import BLOCK, CHUNK, LANES, PLANE, SEGMENT
from app.engine.cuda.weights import DeviceMatrix
from app.engine.formats import FORMATS, GGMLType, k_scales

Bytes = NDArray[np.uint8]
Any64 = NDArray[Any]

QUAD_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)  # the quads of a block of activations, in the order of their words


# ---------------------------------------------------------------------------------------------- packed weights


def unpacked(packed: Bytes, matrix: DeviceMatrix) -> Any64:
    """The weights of groups of 32 rows, float64 [rows, columns]."""
    kind, n_blocks = matrix.packed_kind, matrix.columns // BLOCK
    groups = packed.reshape(matrix.n_groups, matrix.group_bytes)
    if FORMATS[kind].block == 1:
        per = 16 // FORMATS[kind].n_bytes  # numbers of a row that lie together
        lanes = groups.reshape(matrix.n_groups, matrix.columns // per, LANES, 16).transpose(0, 2, 1, 3)
        rows = np.ascontiguousarray(lanes).view(FORMATS[kind].layout["x"])
        if kind == GGMLType.BF16:
            rows = (rows.astype(np.uint32) << 16).view(np.float32)
        return rows.reshape(-1, matrix.columns)[: matrix.rows].astype(np.float64)
    segments, at = [], 0
    for first in range(0, n_blocks, SEGMENT):
        count = min(SEGMENT, n_blocks - first)
        weights, at = _segment(groups, at, kind, count)
        segments.append(weights.reshape(-1, count * BLOCK))
    assert at == matrix.group_bytes
    return np.concatenate(segments, axis=1)[: matrix.rows]


def _segment(groups: Bytes, at: int, kind: GGMLType, count: int) -> tuple[Any64, int]:
    """The weights of one segment's blocks, float64 [groups, lanes, blocks, 32], and where the next segment begins."""

    def take(n_planes: int, lane_bytes: int = 16) -> Bytes:
        nonlocal at
        part = groups[:, at : at + n_planes * LANES * lane_bytes].reshape(len(groups), n_planes, LANES, lane_bytes)
        at += n_planes * LANES * lane_bytes
        return np.ascontiguousarray(part.transpose(0, 2, 1, 3))  # [groups, lanes, planes, bytes]

    head = take(1)[:, :, 0]
    minima = take(1) if kind in (GGMLType.Q4_1, GGMLType.Q5_1) else None
    fifths = take(2) if kind in (GGMLType.Q5_0, GGMLType.Q5_1, GGMLType.Q5_K) else None
    pairs = take(4) if kind == GGMLType.Q6_K else None
    d = take(1, 2).view(np.float16)[:, :, 0] if kind == GGMLType.Q6_K else None
    if kind == GGMLType.Q8_0:
        whole = take(2 * count).view(np.int8).reshape(*head.shape[:2], count, 32).astype(np.float64)
    else:
        nibbles = take(count)
        whole = np.concatenate((nibbles & 15, nibbles >> 4), axis=-1).astype(np.int32)  # columns 0..15, then 16..31
        if fifths is not None:  # bit j of byte i tops column i of quad j
            words = fifths.reshape(*head.shape[:2], SEGMENT, 1, 4)[:, :, :count]
            bits = words >> np.arange(8, dtype=np.uint8)[:, np.newaxis] & 1
            whole += 16 * bits.reshape(whole.shape).astype(np.int32)
        if pairs is not None:  # bits 2 j.. of byte i of word h top column i of quad 4 h + j
            words = pairs.reshape(*head.shape[:2], SEGMENT, 2, 1, 4)[:, :, :count]
            tops = words >> 2 * np.arange(4, dtype=np.uint8)[:, np.newaxis] & 3
            whole += 16 * tops.reshape(whole.shape).astype(np.int32)
        whole = whole - {GGMLType.Q4_0: 8, GGMLType.Q5_0: 16, GGMLType.Q6_K: 32}.get(kind, 0)
    if kind == GGMLType.Q6_K:
        assert d is not None
        scales = np.repeat(head.view(np.int8).astype(np.float64).reshape(*head.shape[:2], SEGMENT, 2), 16, axis=-1)
        return whole * scales[:, :, :count] * d.astype(np.float64)[..., np.newaxis], at
    if kind in (GGMLType.Q4_K, GGMLType.Q5_K):
        scale, minimum = k_scales(head[..., 4:].reshape(-1, 12))
        both = head[..., :4].copy().view(np.float16).astype(np.float64)
        dw = both[..., :1] * scale.reshape(*head.shape[:2], SEGMENT)
        m = -both[..., 1:] * minimum.reshape(*head.shape[:2], SEGMENT)
        return whole * dw[:, :, :count, np.newaxis] + m[:, :, :count, np.newaxis], at
    dw = head.view(np.float16).astype(np.float64)[:, :, :count, np.newaxis]
    m = 0.0 if minima is None else minima[:, :, 0].view(np.float16).astype(np.float64)[:, :, :count, np.newaxis]
    return whole * dw + m, at


# ---------------------------------------------------------------------------------------------- activations


@dataclass(frozen=True)
class Activations:
    """Rows of int8: q [tokens, blocks, 32], d and d times the block's sum [tokens, blocks], sums of halves [.., 2]."""

    q: NDArray[np.int8]
    d: NDArray[np.float32]
    scaled_sums: NDArray[np.float32]
    sums: NDArray[np.int16]

    @property
    def values(self) -> Any64:
        """What they stand for: [tokens, columns]."""
        return (self.q * self.d.astype(np.float64)[..., np.newaxis]).reshape(len(self.q), -1)


def activations(q: NDArray[np.int8], d: NDArray[np.float32]) -> Activations:
    """With the sums that belong to them."""
    halves = q.reshape(*q.shape[:2], 2, 16).sum(axis=-1, dtype=np.int16)
    return Activations(q, d, (halves.sum(axis=-1) * d).astype(np.float32), halves)


def activation_memory(x: Activations) -> Bytes:
    """As a kernel finds them, for as many tokens as there are."""
    words = x.q.reshape(*x.q.shape[:2], 8, 4)[:, :, QUAD_PLACES].transpose(1, 0, 2, 3)
    scales = np.stack((x.d, x.scaled_sums), axis=-1).transpose(1, 0, 2)
    parts = (words, scales, x.sums.transpose(1, 0, 2))
    return np.concatenate([np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts])


def activations_in(memory: Bytes, n_blocks: int, tokens: int) -> Activations:
    """As a kernel left them."""
    blocks = n_blocks * tokens
    words = memory[: blocks * 32].view(np.int8).reshape(n_blocks, tokens, 8, 4)
    scales = memory[blocks * 32 : blocks * 40].view(np.float32).reshape(n_blocks, tokens, 2).transpose(1, 0, 2)
    sums = memory[blocks * 40 : blocks * 44].view(np.int16).reshape(n_blocks, tokens, 2).transpose(1, 0, 2)
    q = np.empty_like(words)
    q[:, :, QUAD_PLACES] = words
    return Activations(q.transpose(1, 0, 2, 3).reshape(tokens, n_blocks, 32), scales[..., 0], scales[..., 1], sums)


# ---------------------------------------------------------------------------------------------- pages of the cache

_NUMBERS = {"f32": np.float32, "f16": np.float16, "q8_0": np.int8}


def half_page(numbers: Any64, scales: NDArray[np.float16] | None, is_key: bool) -> Bytes:
    """Keys or values of one head: numbers [CHUNK, head_dim] of the cache's type, and q8_0's scales [CHUNK, blocks]."""
    if is_key:
        per = 16 // numbers.itemsize
        numbers = numbers.reshape(CHUNK, -1, per).transpose(1, 0, 2)
        scales = None if scales is None else scales.T
    parts = [numbers] if scales is None else [numbers, scales]
    return np.concatenate([np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts])


def half_page_in(memory: Bytes, kind: str, head_dim: int, is_key: bool) -> Any64:
    """What the keys or values of one head stand for: float64 [CHUNK, head_dim]."""
    numbers = np.dtype(_NUMBERS[kind])
    n_bytes = CHUNK * head_dim * numbers.itemsize
    x = memory[:n_bytes].view(numbers).astype(np.float64)
    if is_key:
        x = x.reshape(-1, CHUNK, 16 // numbers.itemsize).transpose(1, 0, 2)
    x = x.reshape(CHUNK, head_dim)
    if kind != "q8_0":
        return x
    scales = memory[n_bytes:].view(np.float16).astype(np.float64)
    scales = scales.reshape(-1, CHUNK).T if is_key else scales.reshape(CHUNK, -1)
    return x * np.repeat(scales, BLOCK, axis=1)


assert PLANE == LANES * 16
