"""A model's weights in memory: every matrix packed, norms and biases as float32, and the tables that a step reads.

How the matrices come into one block is in `weight_block.py`; here is where each of them lies in it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from app.engine.cpu.layout import BLOCK, WIDE, Layer, Matrix
from app.engine.cpu.library import Kernels
from app.engine.cpu.pack import PackedMatrix
from app.engine.cpu.weight_block import OnProgress, weight_block
from app.engine.formats import GGMLType
from app.engine.gguf import GGUFFile
from app.engine.spec import ModelSpec
from app.engine.tensors import MATRIX_PARTS, head_tensor, read_bias, read_vector

TAKE_BYTES = 96 << 10  # of packed weights that a thread takes from a phase's work at a time
ALIGNMENT = 64


class PackedWeights:
    """All weights of one model. `layers` and `head` are what the kernels' Ctx.LAYERS and Ctx.HEAD point at."""

    def __init__(
        self, gguf: GGUFFile, spec: ModelSpec, kernels: Kernels, threads: int, *, head_kind: GGMLType | None = None,
        on_progress: OnProgress | None = None, cache_bytes: int = 0, notify: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        """Read and pack the weights of `gguf`, or map them as they were packed before.

        head_kind     requantises the LM head (only Q4_0 is known)
        cache_bytes   what packed weights of all models may take on disk
        notify        is told where the disk keeps them badly
        """
        lanes = kernels.isa.lanes
        self._gguf, self._spec, self._lanes = gguf, spec, lanes
        self._keep: list[NDArray[np.generic]] = []  # arrays whose addresses are in the tables
        matrices = self._plan(head_kind)
        last = matrices["head"]
        self.n_bytes = last.offset + last.n_groups(lanes) * last.group_bytes(lanes)
        self._block = weight_block(
            gguf, list(matrices.values()), self.n_bytes, kernels, threads, on_progress or _say_nothing, cache_bytes,
            notify or _say_nothing,
        )  # fmt: skip
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
            words[Layer.Q_BIAS] = self._bias(prefix + "attn_q.bias")
            words[Layer.K_BIAS] = self._bias(prefix + "attn_k.bias")
            words[Layer.V_BIAS] = self._bias(prefix + "attn_v.bias")
        places = (Layer.Q, Layer.K, Layer.V, Layer.OUT, Layer.GATE, Layer.UP, Layer.DOWN)
        for place, part in zip(places, MATRIX_PARTS, strict=True):
            words[place] = tables[prefix + part]
        return self._keep_address(words)

    def _vector(self, name: str) -> int:
        """Address of a norm as float32."""
        return self._keep_address(read_vector(self._gguf, name))

    def _bias(self, name: str) -> int:
        """Address of a bias as float32."""
        return self._keep_address(read_bias(self._gguf, self._spec, name))

    def _keep_address(self, array: NDArray[np.generic]) -> int:
        self._keep.append(array)
        return array.ctypes.data


def piece_groups(matrix: PackedMatrix, lanes: int) -> int:
    """Groups that a thread takes at a time: about TAKE_BYTES, at least eight pieces a phase, whole vectors of rows."""
    wanted = max(1, min(TAKE_BYTES // matrix.group_bytes(lanes), matrix.n_groups(lanes) // 8))
    unit = max(1, WIDE // lanes)
    return -(-wanted // unit) * unit


def _say_nothing(*_: object) -> None:
    """Nobody wants to be told."""
