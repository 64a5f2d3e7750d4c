"""Weights rearranged so that a lane owns a row: from a GGUF file's rows to the groups that the kernels walk.

A group is `lanes` rows and is contiguous. Inside it lie planes, in this order (nb blocks of 32 columns, ns segments of
256 columns, L lanes):

    F32, F16, BF16   weights [nb * 32][L]
    Q8_0             scales f16 [nb][L]; int8 [nb][8][L][4]
    Q4_0, Q4_1       scales f16 [nb][L]; Q4_1: minima f16 [nb][L]; nibbles [nb][4][L][4]
    Q5_0, Q5_1       the same, with bits [nb][L][4] before the nibbles
    Q4_K, Q5_K       d f16 [ns][L]; dmin f16 [ns][L]; scales u8 [nb][L]; minima u8 [nb][L]; Q5_K: bits; nibbles
    Q6_K             d f16 [ns][L]; scales i8 [nb][2][L]; bit pairs [nb][2][L][4]; nibbles

The small planes come first, so that the prefetch at the end of one group brings what the next one needs at once.
Columns come in quads of four neighbours. Quad j of a block is vector j of an int8 plane. In a nibble plane, the low
half of vector j holds quad j and the high half quad j + 4; bit j of a bit plane tops quad j; bits 2j.. of pair vector
h top quad 4h + j. Nothing is lost or rounded, so the instruction set that computes with a group does not matter.

The rearranging itself is `kernels/pack_rows.py`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine.cpu.layout import BLOCK, SEGMENT, Packing
from app.engine.cpu.library import Entry
from app.engine.formats import FORMATS, GGMLType, dequantise, quantise_q4_0
from app.engine.gguf import GGUFFile
from app.engine.rope import pairs_to_halves

PIECE_BYTES = 1 << 20  # of a file's rows that are read and packed at a time: they stay in a core's cache

U8Array = NDArray[np.uint8]

FLOAT_KINDS = (GGMLType.F32, GGMLType.F16, GGMLType.BF16)
_PLANE_BYTES = {  # bytes a row: per block, per segment
    GGMLType.Q8_0: (34, 0),
    GGMLType.Q4_0: (18, 0),
    GGMLType.Q4_1: (20, 0),
    GGMLType.Q5_0: (22, 0),
    GGMLType.Q5_1: (24, 0),
    GGMLType.Q4_K: (18, 4),
    GGMLType.Q5_K: (22, 4),
    GGMLType.Q6_K: (26, 2),
}


@dataclass(frozen=True)
class PackedMatrix:
    """A matrix to pack: `rows` x `columns` of tensor `name`, and where its groups go in the block of weights."""

    name: str
    kind: GGMLType  # as stored in the file
    packed_kind: GGMLType
    rows: int
    columns: int
    offset: int
    head_dim: int  # heads whose rows are put from pairs to halves; 0 for none

    def n_groups(self, lanes: int) -> int:
        return -(-self.rows // lanes)

    def group_bytes(self, lanes: int) -> int:
        return lanes * row_bytes(self.packed_kind, self.columns)


@dataclass(frozen=True)
class Piece:
    """Rows first..last of a matrix: the bytes that they take in the file, and their place in the block of weights."""

    matrix: PackedMatrix
    first: int
    last: int
    n_bytes: int
    place: int


class Packer:
    """Packs the matrices of one file, a few rows at a time; any number of threads may call it."""

    def __init__(self, gguf: GGUFFile, pack: Entry, lanes: int) -> None:
        self._gguf, self._pack, self._lanes = gguf, pack, lanes
        self._own = threading.local()  # each thread's piece of the file, and the same packed

    def pieces(self, matrix: PackedMatrix) -> list[Piece]:
        """All rows of a matrix, cut between groups and between heads."""
        row = self._gguf.tensors[matrix.name].n_bytes // matrix.rows
        unit = matrix.head_dim or self._lanes
        step = max(1, PIECE_BYTES // (row * unit)) * unit
        pieces = []
        for first in range(0, matrix.rows, step):
            last = min(first + step, matrix.rows)
            place = matrix.offset + first // self._lanes * matrix.group_bytes(self._lanes)
            pieces.append(Piece(matrix, first, last, (last - first) * row, place))
        return pieces

    def packed(self, piece: Piece) -> U8Array:
        """The rows as groups, in memory that this thread's next call overwrites."""
        n_groups = -(-(piece.last - piece.first) // self._lanes)
        groups = self._room("groups", n_groups * piece.matrix.group_bytes(self._lanes))
        self.pack(piece, groups.ctypes.data)
        return groups

    def pack(self, piece: Piece, target: int) -> None:
        """Put the rows as groups to address `target`."""
        matrix, n_rows = piece.matrix, piece.last - piece.first
        raw = self._room("rows", piece.n_bytes)
        row = piece.n_bytes // n_rows
        self._gguf.read_into(raw, matrix.name, piece.first * row)
        rows = raw.reshape(n_rows, row)
        if matrix.packed_kind != matrix.kind:
            rows = quantise_q4_0(dequantise(rows, matrix.kind, matrix.columns)).reshape(n_rows, -1)
        if matrix.head_dim:
            order = pairs_to_halves(matrix.head_dim)
            rows = rows.reshape(-1, matrix.head_dim, rows.shape[1])[:, order].reshape(n_rows, -1)
        missing = -n_rows % self._lanes  # rows of zeros fill the last group
        if missing:
            rows = np.concatenate((rows, np.zeros((missing, rows.shape[1]), np.uint8)))
        words = np.zeros(len(Packing), np.int64)
        words[Packing.FORMAT], words[Packing.LANES] = matrix.packed_kind, self._lanes
        words[Packing.SOURCE], words[Packing.ROW_BYTES] = rows.ctypes.data, rows.shape[1]
        words[Packing.N_BLOCKS], words[Packing.N_GROUPS] = matrix.columns // BLOCK, len(rows) // self._lanes
        words[Packing.GROUP_BYTES], words[Packing.TARGET] = matrix.group_bytes(self._lanes), target
        self._pack(words.ctypes.data, 0)

    def _room(self, name: str, n_bytes: int) -> U8Array:
        """Memory of this thread, the same at every call."""
        room: U8Array | None = getattr(self._own, name, None)
        if room is None or room.size < n_bytes:
            room = np.empty(n_bytes, np.uint8)
            setattr(self._own, name, room)
        return room[:n_bytes]


def row_bytes(kind: GGMLType, n_columns: int) -> int:
    """Bytes that one row takes when packed."""
    if kind in FLOAT_KINDS:
        return n_columns * FORMATS[kind].n_bytes
    per_block, per_segment = _PLANE_BYTES[kind]
    n_blocks = n_columns // BLOCK
    return n_blocks * per_block + n_blocks // SEGMENT * per_segment
