"""The planes of packed weights in NumPy, written from the page of `app.engine.cpu.pack` and not from the kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.engine.cpu.layout import BLOCK, SEGMENT
from app.engine.cpu.pack import FLOAT_KINDS
from app.engine.formats import FORMATS, GGMLType, k_scales

U8Array = NDArray[np.uint8]


def pack(raw: U8Array, kind: GGMLType, lanes: int) -> U8Array:
    """Rows of a GGUF tensor, uint8 [rows, bytes], as groups: uint8 [rows / lanes, group bytes]."""
    groups = raw.shape[0] // lanes
    if kind in FLOAT_KINDS:
        width = FORMATS[kind].n_bytes
        return (
            np.ascontiguousarray(raw.view(f"u{width}").reshape(groups, lanes, -1).transpose(0, 2, 1))
            .view(np.uint8)
            .reshape(groups, -1)
        )
    blocks = raw.view(FORMATS[kind].layout)  # [rows, file blocks]
    planes = _k_planes(blocks, kind) if FORMATS[kind].block == 256 else _plain_planes(blocks, kind)
    return np.concatenate([_interleave(plane, groups, lanes) for plane in planes], axis=1)


def _interleave(plane: NDArray[np.generic], groups: int, lanes: int) -> U8Array:
    """[rows, ..., k] to bytes [groups, ...]: the lane becomes the axis before the last."""
    shape = (groups, lanes, *plane.shape[1:])
    last = len(shape) - 1
    if plane.dtype == np.uint8 and plane.shape[-1] == 4:  # move quads as whole words
        return _interleave(np.ascontiguousarray(plane).view(np.uint32), groups, lanes)
    order = (0, *range(2, last), 1, last)
    return np.ascontiguousarray(plane.reshape(shape).transpose(order)).view(np.uint8).reshape(groups, -1)


def _plain_planes(blocks: NDArray[np.void], kind: GGMLType) -> list[NDArray[np.generic]]:
    """Planes of the formats with blocks of 32. A block's nibbles are stored in the file as they are needed here."""
    rows, n_blocks = blocks.shape
    names, quads = blocks.dtype.names or (), 8 if kind == GGMLType.Q8_0 else 4
    planes: list[NDArray[np.generic]] = [blocks[name][..., np.newaxis] for name in ("d", "m") if name in names]
    if "qh" in names:
        bits = np.unpackbits(np.ascontiguousarray(blocks["qh"]), axis=-1, bitorder="little")
        planes.append(_bit_plane(bits.reshape(rows, n_blocks, 32)))
    return [*planes, blocks["qs"].view(np.uint8).reshape(rows, n_blocks, quads, 4)]


def _k_planes(blocks: NDArray[np.void], kind: GGMLType) -> list[NDArray[np.generic]]:
    """Planes of the formats with super-blocks of 256."""
    rows, n_segments = blocks.shape
    shape = (rows, n_segments * SEGMENT, BLOCK)
    if kind == GGMLType.Q6_K:
        ql = blocks["ql"].reshape(rows, n_segments, 2, 1, 64)
        low = np.concatenate((ql & 15, ql >> 4), axis=3).reshape(shape)
        pairs = blocks["qh"].reshape(rows, n_segments, 2, 1, 32)
        high = (pairs >> np.array([0, 2, 4, 6], np.uint8)[:, np.newaxis] & 3).reshape(rows, shape[1], 2, 4, 4)
        shifts = np.array([0, 2, 4, 6], np.uint8)[:, np.newaxis]
        pair_plane = np.bitwise_or.reduce(high << shifts, axis=3)
        scales = blocks["scales"].reshape(rows, shape[1], 2, 1)
        return [blocks["d"][..., np.newaxis], scales, pair_plane, _nibble_plane(low)]
    qs = blocks["qs"].reshape(rows, n_segments, 4, 1, 32)
    low = np.concatenate((qs & 15, qs >> 4), axis=3).reshape(shape)
    planes: list[NDArray[np.generic]] = [blocks[name][..., np.newaxis] for name in ("d", "m")]
    for six_bits in k_scales(blocks["scales"].reshape(-1, 12)):
        planes.append(six_bits.reshape(rows, shape[1], 1))
    if kind == GGMLType.Q5_K:
        qh = blocks["qh"].reshape(rows, n_segments, 1, 32)
        bits = qh >> np.arange(8, dtype=np.uint8)[:, np.newaxis] & np.uint8(1)
        planes.append(_bit_plane(bits.reshape(shape)))
    return [*planes, _nibble_plane(low)]


def _nibble_plane(values: U8Array) -> U8Array:
    """[rows, nb, 32] values 0..15 to [rows, nb, 4, 4] bytes."""
    rows, n_blocks, _ = values.shape
    return (values[..., :16] | values[..., 16:] << np.uint8(4)).reshape(rows, n_blocks, 4, 4)


def _bit_plane(bits: U8Array) -> U8Array:
    """[rows, nb, 32] values 0..1 to [rows, nb, 4] bytes."""
    rows, n_blocks, _ = bits.shape
    shifts = np.arange(8, dtype=np.uint8)[:, np.newaxis]
    plane: U8Array = np.bitwise_or.reduce(bits.reshape(rows, n_blocks, 8, 4) << shifts, axis=2)
    return plane
