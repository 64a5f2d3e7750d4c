"""A model's weights on the device: every matrix packed there, norms and biases as float32, and the tables of a step.

The rows of a matrix go up as the file has them, some megabytes at a time, and a kernel puts them into groups: nothing
is rearranged on the CPU, and no page of the file stays in this process.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.cuda.device import Buffer, Device, Program
from app.engine.cuda.layout import BLOCK, LANES, LAYER, MATRIX, PLANE, SEGMENT
from app.engine.formats import FORMATS, GGMLType, dequantise, quantise_q4_0
from app.engine.gguf import GGUFFile
from app.engine.spec import ModelSpec
from app.engine.tensors import EMBEDDING_TENSOR, MATRIX_PARTS, head_tensor, read_bias, read_vector

OnProgress = Callable[[int, int], None]

PIECE_BYTES = 32 << 20  # of a file's rows that go up at a time
ALIGNMENT = 256
EMBEDDING, HEAD = "embedding", "head"  # names of the two in a plan
PACK_THREADS, PACK_BLOCKS = 256, 1024

_FLOATS = (GGMLType.F32, GGMLType.F16, GGMLType.BF16)
_HEAD_BYTES = {  # of a segment, before its blocks (kernels/formats.cuh)
    GGMLType.Q8_0: PLANE, GGMLType.Q4_0: PLANE, GGMLType.Q4_1: 2 * PLANE, GGMLType.Q5_0: 3 * PLANE,
    GGMLType.Q5_1: 4 * PLANE, GGMLType.Q4_K: PLANE, GGMLType.Q5_K: 3 * PLANE, GGMLType.Q6_K: 5 * PLANE + 2 * LANES,
}  # fmt: skip


@dataclass(frozen=True)
class DeviceMatrix:
    """A matrix to pack: `rows` x `columns` of tensor `name`, and where its groups go in the block of weights."""

    name: str
    kind: GGMLType  # as stored in the file
    packed_kind: GGMLType
    rows: int
    columns: int
    offset: int
    paired_head: int  # head size where rows go from pairs to halves, else 0

    @property
    def n_groups(self) -> int:
        return -(-self.rows // LANES)

    @property
    def packed_row_bytes(self) -> int:
        """Bytes of a row as it comes to be packed."""
        return self.columns // FORMATS[self.packed_kind].block * FORMATS[self.packed_kind].n_bytes

    @property
    def group_bytes(self) -> int:
        """Bytes of 32 rows. The last segment of a row has its head whole and only the blocks that there are."""
        n_blocks = self.columns // BLOCK
        if self.packed_kind in _FLOATS:
            return self.columns * FORMATS[self.packed_kind].n_bytes * LANES
        block = 2 * PLANE if self.packed_kind == GGMLType.Q8_0 else PLANE
        return -(-n_blocks // SEGMENT) * _HEAD_BYTES[self.packed_kind] + n_blocks * block


@dataclass(frozen=True)
class WeightPlan:
    """What will lie where, before anything is allocated. `formats` are the GGML types of the packed matrices.

    "embedding" is there where the LM head does not hold the same numbers.
    """

    matrices: dict[str, DeviceMatrix]
    n_bytes: int

    @property
    def formats(self) -> frozenset[GGMLType]:
        return frozenset(matrix.packed_kind for matrix in self.matrices.values())

    @property
    def token_bytes(self) -> int:
        """What a token reads."""
        return sum(matrix.n_groups * matrix.group_bytes for matrix in self._multiplied())

    @property
    def longest_row(self) -> int:
        """Columns of the widest matrix."""
        return max(matrix.columns for matrix in self._multiplied())

    @property
    def longest_float_row(self) -> int:
        """The same of those with float weights, 0 for none."""
        return max((m.columns for m in self._multiplied() if m.packed_kind in _FLOATS), default=0)

    def _multiplied(self) -> list[DeviceMatrix]:
        """All but a table of embeddings: its rows are only looked up."""
        return [matrix for name, matrix in self.matrices.items() if name != EMBEDDING]


def plan_weights(gguf: GGUFFile, spec: ModelSpec, head_kind: GGMLType | None = None) -> WeightPlan:
    """Every matrix in the order in which a step walks them. `head_kind` requantises the LM head (only Q4_0)."""
    plan: dict[str, DeviceMatrix] = {}
    offset = 0
    names = {f"blk.{i}.{part}": f"blk.{i}.{part}.weight" for i in range(spec.n_layers) for part in MATRIX_PARTS}
    if not spec.tied_head or head_kind not in (None, gguf.tensors[EMBEDDING_TENSOR].type):
        names = {EMBEDDING: EMBEDDING_TENSOR} | names
    for name, source in (names | {HEAD: head_tensor(spec)}).items():
        tensor = gguf.tensors[source]
        columns, rows = tensor.shape
        paired = spec.rope_style == "pairs" and name.endswith(("attn_q", "attn_k"))
        kind = head_kind if name == HEAD and head_kind is not None else tensor.type
        plan[name] = DeviceMatrix(
            tensor.name, tensor.type, kind, rows, columns, offset, spec.head_dim if paired else 0
        )  # fmt: skip
        size = plan[name].n_groups * plan[name].group_bytes
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    return WeightPlan(plan, offset)


def piece_rows(gguf: GGUFFile, matrix: DeviceMatrix) -> int:
    """Rows that are packed at a time: whole groups and whole heads."""
    row = gguf.tensors[matrix.name].n_bytes // matrix.rows
    unit = math.lcm(LANES, matrix.paired_head or 1)
    return max(1, PIECE_BYTES // (row * unit)) * unit


def staging_bytes(gguf: GGUFFile, plan: WeightPlan) -> int:
    """What the rows on their way up take on the device."""
    return max(_piece_bytes(gguf, matrix) for matrix in plan.matrices.values())


def _piece_bytes(gguf: GGUFFile, matrix: DeviceMatrix) -> int:
    rows = min(piece_rows(gguf, matrix), matrix.rows)
    return rows * max(matrix.packed_row_bytes, gguf.tensors[matrix.name].n_bytes // matrix.rows)


class CudaWeights:
    """The weights of one model in device memory."""

    def __init__(
        self, gguf: GGUFFile, spec: ModelSpec, plan: WeightPlan, device: Device, program: Program,
        on_progress: OnProgress,
    ) -> None:  # fmt: skip
        self._gguf, self._spec, self._plan = gguf, spec, plan
        self._device, self._program = device, program
        self.block = device.allocate(plan.n_bytes)  # all matrices
        device.clear(self.block)  # lanes of a last group that have no row read their weights all the same
        self._memory = [self.block]
        self._pack_all(on_progress)
        self.n_bytes = plan.n_bytes
        self.head = self._matrix(HEAD)
        self.embedding = self._matrix(EMBEDDING) if EMBEDDING in plan.matrices else self.head
        self.output_norm = self._upload(read_vector(gguf, "output_norm.weight"))
        table = np.stack([self._layer(i) for i in range(spec.n_layers)])
        self.layers = self._upload(table)

    def close(self) -> None:
        """Free all of it."""
        self._memory.clear()
        del self.block

    def _pack_all(self, report: OnProgress) -> None:
        """Rows up, a piece at a time, and packed there."""
        matrices = self._plan.matrices.values()
        total = sum(self._gguf.tensors[matrix.name].n_bytes for matrix in matrices)
        staging, done = self._device.allocate(staging_bytes(self._gguf, self._plan)), 0
        for matrix in matrices:
            row = self._gguf.tensors[matrix.name].n_bytes // matrix.rows
            step = piece_rows(self._gguf, matrix)
            for first in range(0, matrix.rows, step):
                count = min(step, matrix.rows - first)
                self._bring(matrix, first, count, staging)
                self._pack(matrix, first, count, staging)
                done += count * row
                report(done, total)

    def _bring(self, matrix: DeviceMatrix, first: int, count: int, staging: Buffer) -> None:
        """Rows of the file to the beginning of `staging`, in the format in which they are packed."""
        row = self._gguf.tensors[matrix.name].n_bytes // matrix.rows
        rows = self._gguf.read(matrix.name, first * row, count * row).reshape(count, row)
        if matrix.packed_kind != matrix.kind:
            rows = quantise_q4_0(dequantise(rows, matrix.kind, matrix.columns)).reshape(count, -1)
        self._device.write(staging, rows)

    def _pack(self, matrix: DeviceMatrix, first: int, count: int, staging: Buffer) -> None:
        offset = matrix.offset + first // LANES * matrix.group_bytes
        n_blocks = matrix.columns // BLOCK
        grid = min(PACK_BLOCKS, -(-count * n_blocks // PACK_THREADS))
        self._program.launch(
            "pack_rows", (grid,), PACK_THREADS,
            (
                staging, self.block, np.int64(offset), np.int32(matrix.packed_kind), np.int32(count),
                np.int32(matrix.packed_row_bytes), np.int32(n_blocks), np.int32(matrix.paired_head),
                np.int64(matrix.group_bytes),
            ),
        )  # fmt: skip

    def _matrix(self, name: str) -> NDArray[np.void]:
        matrix = self._plan.matrices[name]
        entry = np.zeros((), MATRIX)
        entry["data"], entry["group_bytes"] = self.block.address + matrix.offset, matrix.group_bytes
        entry["format"], entry["n_rows"] = matrix.packed_kind, matrix.rows
        entry["n_groups"], entry["n_blocks"] = matrix.n_groups, matrix.columns // BLOCK
        return entry

    def _layer(self, index: int) -> NDArray[np.void]:
        gguf, spec, prefix = self._gguf, self._spec, f"blk.{index}."
        entry = np.zeros((), LAYER)
        norms = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm"}
        if spec.qk_norm:
            norms |= {"q_norm": "attn_q_norm", "k_norm": "attn_k_norm"}
        for member, part in norms.items():
            entry[member] = self._upload(read_vector(gguf, f"{prefix}{part}.weight"))
        if spec.qkv_bias:
            for member, part in (("q_bias", "attn_q"), ("k_bias", "attn_k"), ("v_bias", "attn_v")):
                entry[member] = self._upload(read_bias(gguf, spec, f"{prefix}{part}.bias"))
        for member, part in zip(("q", "k", "v", "out", "gate", "up", "down"), MATRIX_PARTS, strict=True):
            entry[member] = self._matrix(prefix + part)
        return entry

    def _vector(self, values: NDArray[np.float32]) -> int:
        """Its address on the device."""
        return self._upload(values)

    def _upload(self, array: NDArray[Any]) -> int:
        """Keep a copy on the device; its address there."""
        buffer = self._device.allocate(array.nbytes)
        self._device.write(buffer, array)
        self._memory.append(buffer)
        return buffer.address
