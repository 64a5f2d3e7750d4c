"""Models in the shapes of Qwen3 with weights that nobody trained, made on the GPU: no file, no download, no upload."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.cuda.decoder import CudaDecoder
from app.engine.cuda.device import Buffer, Device
from app.engine.cuda.weights import CudaWeights, DeviceMatrix, plan_weights
from app.engine.formats import FORMATS, GGMLType
from app.engine.gguf_header import TensorInfo
from app.engine.spec import ModelSpec
from bench.random_rows import RandomRows

SHAPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "0.6b": {"n_layers": 28, "d_model": 1024, "d_ff": 3072, "n_heads": 16, "tied_head": True},
        "1.7b": {"n_layers": 28, "d_model": 2048, "d_ff": 6144, "n_heads": 16, "tied_head": True},
        "4b": {"n_layers": 36, "d_model": 2560, "d_ff": 9728, "n_heads": 32, "tied_head": True},
        "8b": {"n_layers": 36, "d_model": 4096, "d_ff": 12288, "n_heads": 32, "tied_head": False},
    }
)
_QWEN3: Mapping[str, Any] = MappingProxyType(
    {
        "architecture": "qwen3", "n_kv_heads": 8, "head_dim": 128, "vocab_size": 151_936, "context_length": 40_960,
        "norm_eps": 1e-6, "rope_theta": 1e6, "rope_style": "halves", "rope_scale": 1.0, "rope_factors": False,
        "qk_norm": True, "qkv_bias": False,
    }
)  # fmt: skip


class RandomFile:
    """As an open GGUF file, for the engine: all tensors by name, and the vectors, which come from the CPU: ones."""

    def __init__(self, spec: ModelSpec, kind: GGMLType) -> None:
        self.tensors = {name: _tensor(name, shape, kind) for name, shape in spec.tensor_shapes().items()}
        self._ones = np.ones(max(spec.d_model, spec.d_ff), np.float32).view(np.uint8)

    def read(self, name: str, first: int = 0, n_bytes: int | None = None) -> NDArray[np.uint8]:
        assert first == 0 and n_bytes is None and len(self.tensors[name].shape) == 1
        return self._ones[: self.tensors[name].n_bytes]


class RandomWeights(CudaWeights):
    """Made where they are used; packed there as those of a file are."""

    _rows: RandomRows | None = None

    def _bring(self, matrix: DeviceMatrix, first: int, count: int, staging: Buffer) -> None:
        del first
        self._rows = self._rows or RandomRows(self._device)
        self._rows.make(staging, matrix.packed_kind, matrix.columns, count)


class RandomModel:
    """A model of one shape, with all matrices in one format. `shape` is that of a `ModelSpec`, or the part of it that
    differs from Qwen3's."""

    def __init__(self, shape: Mapping[str, Any], kind: GGMLType) -> None:
        self.spec = ModelSpec(**{**_QWEN3, "name": "random", **shape})
        self._file: Any = RandomFile(self.spec, kind)
        self.plan = plan_weights(self._file, self.spec)

    def decoder(self, device: Device, **options: Any) -> CudaDecoder:
        """Raises MemoryError."""
        return CudaDecoder(
            self._file, self.spec, self.plan, device, kv="f16", weights=RandomWeights, **options
        )  # fmt: skip


def _tensor(name: str, shape: tuple[int, ...], kind: GGMLType) -> TensorInfo:
    kind = kind if len(shape) == 2 else GGMLType.F32
    n_bytes = int(np.prod(shape)) // FORMATS[kind].block * FORMATS[kind].n_bytes
    return TensorInfo(name=name, shape=shape, type=kind, offset=0, n_bytes=n_bytes)
