"""A model's weights in memory: every matrix packed, norms and biases as float32, and the tables that a step reads.

Matrices are read and packed a few megabytes at a time by several threads, straight into one block of memory, so that
loading never holds more than the packed weights and a few such pieces.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine.cpu import pack
from app.engine.cpu.layout import BLOCK, WIDE, Layer, Matrix
from app.engine.formats import FORMATS, GGMLType, dequantise, quantise_q4_0
from app.engine.gguf import GGUFFile
from app.engine.memory import private_memory
from app.engine.rope import pairs_to_halves
from app.engine.spec import ModelSpec

PIECE_BYTES = 1 << 19  # of a file's rows that are read and packed at a time
TAKE_BYTES = 96 << 10  # of packed weights that a thread takes from a phase's work at a time
ALIGNMENT = 64

OnProgress = Callable[[int, int], None]
U8Array = NDArray[np.uint8]


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
        return lanes * pack.row_bytes(self.packed_kind, self.columns)


class PackedWeights:
    """All weights of one model. `layers` and `head` are what the kernels' Ctx.LAYERS and Ctx.HEAD point at."""

    def __init__(
        self, gguf: GGUFFile, spec: ModelSpec, lanes: int, threads: int, *, head_kind: GGMLType | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:  # fmt: skip
        """Read and pack the weights of `gguf`. `head_kind` requantises the LM head (only Q4_0 is known)."""
        self._gguf, self._spec, self._lanes = gguf, spec, lanes
        self._keep: list[NDArray[np.generic]] = []  # arrays whose addresses are in the tables
        matrices = self._plan(head_kind)
        last = matrices["head"]
        self.n_bytes = last.offset + last.n_groups(lanes) * last.group_bytes(lanes)
        block = private_memory(self.n_bytes)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            block.madvise(mmap.MADV_HUGEPAGE)
        self._block = np.frombuffer(block, np.uint8)
        self._pack_all(list(matrices.values()), threads, on_progress)
        self.most_piece_groups = max(piece_groups(matrix, lanes) for matrix in matrices.values())
        tables = {key: self._matrix_table(matrix) for key, matrix in matrices.items()}
        self.head: int = tables["head"]
        self.layers: int = self._keep_address(
            np.array([self._layer_table(i, tables) for i in range(spec.n_layers)], np.int64)
        )
        self.output_norm: int = self._vector("output_norm.weight")

    def _plan(self, head_kind: GGMLType | None) -> dict[str, PackedMatrix]:
        """Every matrix in the order in which a step walks them, with its place."""
        spec, plan, offset = self._spec, {}, 0
        names = [f"blk.{i}.{part}" for i in range(spec.n_layers) for part in MATRIX_PARTS]
        for name in [*names, "head"]:
            tensor = self._gguf.tensors[head_tensor(spec) if name == "head" else f"{name}.weight"]
            columns, rows = tensor.shape
            paired = spec.rope_style == "pairs" and name.endswith(("attn_q", "attn_k"))
            kind = head_kind if name == "head" and head_kind is not None else tensor.type
            plan[name] = PackedMatrix(
                tensor.name, tensor.type, kind, rows, columns, offset, spec.head_dim if paired else 0
            )
            size = plan[name].n_groups(self._lanes) * plan[name].group_bytes(self._lanes)
            offset += -(-size // ALIGNMENT) * ALIGNMENT
        return plan

    def _pack_all(self, matrices: list[PackedMatrix], threads: int, on_progress: OnProgress | None) -> None:
        total, done = sum(self._gguf.tensors[m.name].n_bytes for m in matrices), 0
        pieces = [(m, first, last) for m in matrices for first, last in self._pieces(m)]
        with ThreadPoolExecutor(threads) as pool:
            for n_bytes in pool.map(lambda piece: self._pack_rows(*piece), pieces):
                done += n_bytes
                if on_progress is not None:
                    on_progress(done, total)

    def _pieces(self, matrix: PackedMatrix) -> list[tuple[int, int]]:
        """Ranges of rows, cut between groups and between heads."""
        row = self._gguf.tensors[matrix.name].n_bytes // matrix.rows
        unit = matrix.head_dim or self._lanes
        step = max(1, PIECE_BYTES // (row * unit)) * unit
        return [(first, min(first + step, matrix.rows)) for first in range(0, matrix.rows, step)]

    def _pack_rows(self, matrix: PackedMatrix, first: int, last: int) -> int:
        """Pack rows first..last; the bytes that were read."""
        row = self._gguf.tensors[matrix.name].n_bytes // matrix.rows
        raw = self._gguf.read(matrix.name, first * row, (last - first) * row).reshape(last - first, row)
        n_read = raw.nbytes
        if matrix.packed_kind != matrix.kind:
            raw = quantise_q4_0(dequantise(raw, matrix.kind, matrix.columns)).reshape(last - first, -1)
        if matrix.head_dim:
            order = pairs_to_halves(matrix.head_dim)
            raw = raw.reshape(-1, matrix.head_dim, row)[:, order].reshape(-1, row)
        missing = -len(raw) % self._lanes  # rows of zeros fill the last group
        if missing:
            raw = np.concatenate((raw, np.zeros((missing, raw.shape[1]), np.uint8)))
        packed = pack.pack(raw, matrix.packed_kind, self._lanes).reshape(-1)
        start = matrix.offset + first // self._lanes * matrix.group_bytes(self._lanes)
        self._block[start : start + packed.size] = packed
        return n_read

    def _matrix_table(self, matrix: PackedMatrix) -> int:
        words = np.zeros(len(Matrix), np.int64)
        words[Matrix.FORMAT] = matrix.packed_kind
        words[Matrix.DATA] = self._block.ctypes.data + matrix.offset
        words[Matrix.N_GROUPS] = matrix.n_groups(self._lanes)
        words[Matrix.N_BLOCKS] = matrix.columns // BLOCK
        words[Matrix.GROUP_BYTES] = matrix.group_bytes(self._lanes)
        words[Matrix.PIECE] = piece_groups(matrix, self._lanes)
        return self._keep_address(words)

    def _layer_table(self, index: int, tables: dict[str, int]) -> int:
        spec, prefix = self._spec, f"blk.{index}."
        words = np.zeros(len(Layer), np.int64)
        words[Layer.ATTN_NORM] = self._vector(prefix + "attn_norm.weight")
        words[Layer.FFN_NORM] = self._vector(prefix + "ffn_norm.weight")
        if spec.qk_norm:
            words[Layer.Q_NORM] = self._vector(prefix + "attn_q_norm.weight")
            words[Layer.K_NORM] = self._vector(prefix + "attn_k_norm.weight")
        if spec.qkv_bias:
            pairs = spec.rope_style == "pairs"
            words[Layer.Q_BIAS] = self._vector(prefix + "attn_q.bias", rotated=pairs)
            words[Layer.K_BIAS] = self._vector(prefix + "attn_k.bias", rotated=pairs)
            words[Layer.V_BIAS] = self._vector(prefix + "attn_v.bias")
        places = (Layer.Q, Layer.K, Layer.V, Layer.OUT, Layer.GATE, Layer.UP, Layer.DOWN)
        for place, part in zip(places, MATRIX_PARTS, strict=True):
            words[place] = tables[prefix + part]
        return self._keep_address(words)

    def _vector(self, name: str, rotated: bool = False) -> int:
        """Address of a vector as float32; `rotated` puts each head's entries from pairs to halves."""
        values = read_vector(self._gguf, name)
        if rotated:
            values = values.reshape(-1, self._spec.head_dim)[:, pairs_to_halves(self._spec.head_dim)].reshape(-1)
        return self._keep_address(np.ascontiguousarray(values))

    def _keep_address(self, array: NDArray[np.generic]) -> int:
        self._keep.append(array)
        return array.ctypes.data


MATRIX_PARTS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


def head_tensor(spec: ModelSpec) -> str:
    """The tensor that holds the LM head: the embedding where the two are tied."""
    return "token_embd.weight" if spec.tied_head else "output.weight"


def piece_groups(matrix: PackedMatrix, lanes: int) -> int:
    """Groups that a thread takes at a time: about TAKE_BYTES, at least eight pieces a phase, whole vectors of rows."""
    wanted = max(1, min(TAKE_BYTES // matrix.group_bytes(lanes), matrix.n_groups(lanes) // 8))
    unit = max(1, WIDE // lanes)
    return -(-wanted // unit) * unit


def read_vector(gguf: GGUFFile, name: str) -> NDArray[np.float32]:
    """A norm or bias as float32 [n]."""
    tensor = gguf.tensors[name]
    return dequantise(gguf.read(name), tensor.type, tensor.shape[0]).reshape(-1)


def read_rows(gguf: GGUFFile, name: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Some rows of a matrix as float32 [rows, columns], read from the file: how tokens become embeddings."""
    tensor = gguf.tensors[name]
    columns = tensor.shape[0]
    row_bytes = columns // FORMATS[tensor.type].block * FORMATS[tensor.type].n_bytes
    raw = np.stack([gguf.read(name, int(row) * row_bytes, row_bytes) for row in rows])
    return dequantise(raw, tensor.type, columns)
