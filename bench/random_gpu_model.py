"""Models in the shapes of Qwen3 with weights that nobody trained, for measuring a GPU: no file, no download.

What the engine reads of a file comes from one block of random bytes here, over and over, so an 8B model is made as fast
as the card takes it. Bytes stay small enough for scales to be numbers and sums not to overflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.cuda.decoder import CudaDecoder
from app.engine.cuda.device import Device
from app.engine.cuda.weights import plan_weights
from app.engine.formats import FORMATS, GGMLType
from app.engine.gguf_header import TensorInfo
from app.engine.spec import ModelSpec

VOCABULARY = 151_936
SHAPES: Mapping[str, tuple[int, int, int, int, int, bool]] = MappingProxyType(
    {  # layers, d_model, d_ff, heads, KV heads, tied head; heads of 128
        "0.6b": (28, 1024, 3072, 16, 8, True),
        "1.7b": (28, 2048, 6144, 16, 8, True),
        "4b": (36, 2560, 9728, 32, 8, True),
        "8b": (36, 4096, 12288, 32, 8, False),
    }
)
_BLOCK_BYTES = 96 << 20


class RandomFile:
    """As an open GGUF file, for the engine: tensors by name, and their bytes."""

    def __init__(self, spec: ModelSpec, kind: GGMLType) -> None:
        self.tensors = {name: _tensor(name, shape, kind) for name, shape in spec.tensor_shapes().items()}
        rng = np.random.default_rng(0)
        self._bytes = rng.integers(0, 32, _BLOCK_BYTES, np.uint8)
        self._ones = np.ones(max(spec.d_model, spec.d_ff), np.float32).view(np.uint8)

    def read(self, name: str, first: int = 0, n_bytes: int | None = None) -> NDArray[np.uint8]:
        count = self.tensors[name].n_bytes - first if n_bytes is None else n_bytes
        source = self._ones if len(self.tensors[name].shape) == 1 else self._bytes
        return source[:count]


class RandomModel:
    """A model of one shape, with all matrices in one format."""

    def __init__(self, shape: str, kind: GGMLType) -> None:
        layers, d_model, d_ff, heads, kv_heads, tied = SHAPES[shape]
        self.spec = ModelSpec(
            architecture="qwen3", name=f"random {shape}", n_layers=layers, d_model=d_model, d_ff=d_ff, n_heads=heads,
            n_kv_heads=kv_heads, head_dim=128, vocab_size=VOCABULARY, context_length=40_960, norm_eps=1e-6,
            rope_theta=1e6, rope_style="halves", rope_scale=1.0, rope_factors=False, qk_norm=True, qkv_bias=False,
            tied_head=tied,
        )  # fmt: skip
        self._file: Any = RandomFile(self.spec, kind)
        self.plan = plan_weights(self._file, self.spec)

    def decoder(self, device: Device, **options: Any) -> CudaDecoder:
        return CudaDecoder(self._file, self.spec, self.plan, device, kv="f16", **options)


def _tensor(name: str, shape: tuple[int, ...], kind: GGMLType) -> TensorInfo:
    kind = kind if len(shape) == 2 else GGMLType.F32
    n_bytes = int(np.prod(shape)) // FORMATS[kind].block * FORMATS[kind].n_bytes
    return TensorInfo(name=name, shape=shape, type=kind, offset=0, n_bytes=n_bytes)
