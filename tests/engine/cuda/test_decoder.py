"""The CUDA engine gives the bits that docs/numerics.md specifies, in the emulator: every format, shape and cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.engine.cuda.decoder import CudaDecoder
from app.engine.formats import FORMATS, GGMLType
from app.engine.gguf import read_gguf
from tests.engine.cuda.emulated_device import EmulatedDevice, emulated_decoder
from tests.engine.decoders import Floats, reference_logits
from tests.gguf_files import write_model

TOKENS = np.random.default_rng(5).integers(0, 250, 24).tolist()
STEPS = (1, 3, 11, 7, 2)  # 24 tokens: steps of several sizes around a chunk of a prompt
HEAD_DIM = 128  # of all models that share the large program

SHAPES: dict[str, dict[str, Any]] = {
    "qwen2 with biases": {"architecture": "qwen2"},
    "seven heads a group": {"architecture": "qwen2", "n_heads": 7, "n_kv_heads": 1, "d_model": 224, "d_ff": 608},
    "llama with pairs, rope factors and biases": {"architecture": "llama", "rope_factors": True, "qkv_bias": True},
    "no groups": {"n_kv_heads": 4},
    "mixed like Q4_K_M": {"types": {"*": "Q4_K", "*attn_v*": "Q6_K", "*ffn_down*": "Q6_K", "token_embd*": "Q6_K"}},
    "mixed with fallbacks, own head": {"types": "Q4_K", "d_model": 288, "d_ff": 416, "head": "own"},
    "quantised and float in one phase": {"types": {"*": "Q5_0", "*attn_v*": "F16", "*ffn_up*": "BF16"}},
    "float down projection": {"types": {"*": "Q8_0", "*ffn_down*": "F16"}},
}


def logits_of(decoder: CudaDecoder, tokens: Sequence[int], steps: Sequence[int]) -> Floats:
    """The logits after every token, read in steps of these sizes."""
    rows, first = [], 0
    for count in steps:
        rows.append(decoder.forward(tokens[first : first + count], count).copy())
        first += count
    assert first == len(tokens)
    return np.concatenate(rows)


def check(path: Path, device: EmulatedDevice, *, kv: str = "f16", **options: Any) -> None:
    """The reference's bits for 24 tokens."""
    with read_gguf(path) as gguf:
        decoder = emulated_decoder(gguf, device, kv=kv, **options)
        assert np.array_equal(logits_of(decoder, TOKENS, STEPS), reference_logits(path, TOKENS, kv))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format(kind: GGMLType, tmp_path: Path) -> None:
    check(write_model(tmp_path / "model.gguf", types=kind.name, head_dim=HEAD_DIM, n_layers=1), EmulatedDevice())


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(shape: str, tmp_path: Path) -> None:
    options = {"head_dim": HEAD_DIM, "n_layers": 2} | SHAPES[shape]
    check(write_model(tmp_path / "model.gguf", **options), EmulatedDevice(n_multiprocessors=3))


@pytest.mark.parametrize(("kv", "head_dim"), [("f32", 80), ("q8_0", 64)])
def test_every_cache_type_and_other_head_sizes(kv: str, head_dim: int, tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", head_dim=head_dim)
    check(path, EmulatedDevice(all_formats=False), kv=kv, step_sizes=(4,))
