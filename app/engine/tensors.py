"""The tensors of a network by name, and the small ones as arrays: what every device reads from a file alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.engine.formats import FORMATS, dequantise
from app.engine.gguf import GGUFFile
from app.engine.rope import pairs_to_halves
from app.engine.spec import ModelSpec

EMBEDDING_TENSOR = "token_embd.weight"
MATRIX_PARTS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


def head_tensor(spec: ModelSpec) -> str:
    """The tensor that holds the LM head: the embedding where the two are tied."""
    return EMBEDDING_TENSOR if spec.tied_head else "output.weight"


def read_vector(gguf: GGUFFile, name: str) -> NDArray[np.float32]:
    """A norm or bias as float32 [n]."""
    tensor = gguf.tensors[name]
    return dequantise(gguf.read(name), tensor.type, tensor.shape[0]).reshape(-1)


def read_bias(gguf: GGUFFile, spec: ModelSpec, name: str) -> NDArray[np.float32]:
    """A bias in the order of the rows that it is added to: llama's queries and keys go from pairs to halves."""
    values = read_vector(gguf, name)
    if spec.rope_style == "pairs" and "attn_v" not in name:
        values = values.reshape(-1, spec.head_dim)[:, pairs_to_halves(spec.head_dim)].reshape(-1)
    return np.ascontiguousarray(values)


def read_rows(gguf: GGUFFile, name: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Some rows of a matrix as float32 [rows, columns], read from the file: how tokens become embeddings."""
    tensor = gguf.tensors[name]
    columns = tensor.shape[0]
    row_bytes = columns // FORMATS[tensor.type].block * FORMATS[tensor.type].n_bytes
    raw = np.stack([gguf.read(name, int(row) * row_bytes, row_bytes) for row in rows])
    return dequantise(raw, tensor.type, columns)
