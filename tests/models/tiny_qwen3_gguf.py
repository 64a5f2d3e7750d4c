"""Writes the tiny Qwen3 as GGUF files, with K-quant quantisers of its own: the `gguf` package has none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as GGMLType
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tests.models.tiny_qwen3_tokenizer import CHAT_TEMPLATE, CONTROL_TOKENS, MARKS

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Shape:
    """Dimensions of the network. Rows are whole multiples of 256, so that every format applies to every matrix."""

    n_layers: int = 4
    d_model: int = 256
    d_ff: int = 512
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 128  # n_heads * head_dim is not d_model, as in the real Qwen3 of 0.6B and 4B
    vocab_size: int = 1800
    context_length: int = 2048
    rope_theta: float = 1e6
    norm_eps: float = 1e-6


def write_gguf(path: Path, shape: Shape, weights: Mapping[str, Floats], tokenizer: Tokenizer, mixture: str) -> None:
    """Writes `weights` (GGUF names, [rows, columns]) with the formats of `mixture`: q8_0, q4_0 or q4_k."""
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_name("Tiny Qwen3")
    writer.add_license("mit")
    writer.add_description("A very small Qwen3 network for tests, trained on made-up text.")
    writer.add_file_type(
        {"q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0}.get(
            mixture, gguf.LlamaFileType.MOSTLY_Q4_K_M
        )
    )
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_block_count(shape.n_layers)
    writer.add_context_length(shape.context_length)
    writer.add_embedding_length(shape.d_model)
    writer.add_feed_forward_length(shape.d_ff)
    writer.add_head_count(shape.n_heads)
    writer.add_head_count_kv(shape.n_kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_layer_norm_rms_eps(shape.norm_eps)
    _add_tokenizer(writer, tokenizer)
    for name, weight in weights.items():
        kind = tensor_type(name, weight, mixture, shape.n_layers)
        writer.add_tensor(name, quantise(weight, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    kinds = dict.fromkeys(CONTROL_TOKENS, gguf.TokenType.CONTROL)
    kinds |= dict.fromkeys(MARKS, gguf.TokenType.USER_DEFINED)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([kinds.get(token, gguf.TokenType.NORMAL) for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]])
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|endoftext|>"))
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def tensor_type(name: str, weight: Floats, mixture: str, n_layers: int) -> GGMLType:
    """The format that llama.cpp's quantiser would choose (Q4_K_M for the mixture q4_k)."""
    if weight.ndim == 1:
        return GGMLType.F32
    if mixture == "q8_0":
        return GGMLType.Q8_0
    if name == "token_embd.weight":  # the head as well
        return GGMLType.Q6_K
    if mixture == "q4_0":
        return GGMLType.Q4_0
    layer = int(name.split(".")[1])
    eighth = n_layers // 8
    more_bits = layer < eighth or layer >= 7 * n_layers // 8 or (layer - eighth) % 3 == 2
    return GGMLType.Q6_K if more_bits and ("attn_v" in name or "ffn_down" in name) else GGMLType.Q4_K


def quantise(weight: Floats, kind: GGMLType) -> Floats | Bytes:
    """float32 [rows, columns] -> uint8 [rows, bytes of a row] (F32 stays as it is)."""
    if kind == GGMLType.F32:
        return weight
    if kind in (GGMLType.Q8_0, GGMLType.Q4_0):
        return gguf.quants.quantize(weight, kind)
    rows = weight.shape[0]
    superblocks = np.ascontiguousarray(weight, np.float32).reshape(-1, 256)
    packed = quantise_q4_k(superblocks) if kind == GGMLType.Q4_K else quantise_q6_k(superblocks)
    return packed.reshape(rows, -1)


def quantise_q4_k(x: Floats) -> Bytes:
    """float32 [n, 256] -> uint8 [n, 144]: f16 d and dmin, 8 six-bit scales and minima, 256 four-bit values."""
    blocks = x.reshape(-1, 8, 32)
    scales, minima = _best_scales_and_minima(blocks)  # x ~ scale * q - minimum
    d, scale_codes = _six_bit_codes(scales)
    dmin, minimum_codes = _six_bit_codes(minima)
    step = (d * scale_codes)[..., None]
    shift = (dmin * minimum_codes)[..., None]
    q = np.clip(np.rint(np.divide(blocks + shift, step, out=np.zeros_like(blocks), where=step > 0)), 0, 15)
    q = q.astype(np.uint8).reshape(-1, 4, 2, 32)  # a pair of blocks shares 32 bytes: low and high nibbles
    sc, m = scale_codes.astype(np.uint8), minimum_codes.astype(np.uint8)
    codes = np.concatenate(
        [
            sc[:, :4] | (sc[:, 4:] >> 4) << 6,
            m[:, :4] | (m[:, 4:] >> 4) << 6,
            (sc[:, 4:] & 15) | (m[:, 4:] & 15) << 4,
        ],
        axis=1,
    )
    return np.concatenate([_f16(d), _f16(dmin), codes, (q[:, :, 0] | q[:, :, 1] << 4).reshape(-1, 128)], axis=1)


def _best_scales_and_minima(blocks: Floats) -> tuple[Floats, Floats]:
    """The scale and minimum of each block of least squared error among a few starting points, each refitted."""
    low = np.minimum(blocks.min(-1, keepdims=True), 0)
    span = np.maximum(blocks.max(-1, keepdims=True) - low, 1e-12)
    best = np.full(blocks.shape[:-1], np.inf, np.float32)
    scales, minima = np.zeros_like(best), np.zeros_like(best)
    for top in np.arange(13.0, 16.5, 0.1):
        q = np.clip(np.rint((blocks - low) * (top / span)), 0, 15)
        n, sum_q, sum_qq = 32.0, q.sum(-1), (q * q).sum(-1)
        sum_x, sum_qx = blocks.sum(-1), (q * blocks).sum(-1)
        determinant = np.maximum(n * sum_qq - sum_q * sum_q, 1e-12)
        scale = (n * sum_qx - sum_q * sum_x) / determinant
        offset = np.minimum((sum_x - scale * sum_q) / n, 0)
        scale = np.where(offset == 0, sum_qx / np.maximum(sum_qq, 1e-12), scale)
        error = ((scale[..., None] * q + offset[..., None] - blocks) ** 2).sum(-1)
        better = (error < best) & (scale > 0)
        best = np.where(better, error, best)
        scales, minima = np.where(better, scale, scales), np.where(better, -offset, minima)
    return scales, minima


def _six_bit_codes(values: Floats) -> tuple[Floats, Floats]:
    """[n, 8] of values >= 0 -> the f16 step [n, 1] and codes 0..63 [n, 8]."""
    step = (values.max(-1, keepdims=True) / 63).astype(np.float16).astype(np.float32)
    codes = np.divide(values, step, out=np.zeros_like(values), where=step > 0)
    return step, np.clip(np.rint(codes), 0, 63)


def quantise_q6_k(x: Floats) -> Bytes:
    """float32 [n, 256] -> uint8 [n, 210]: 256 six-bit values (low 4 bits, high 2 bits), 16 int8 scales, f16 d."""
    blocks = x.reshape(-1, 16, 16)
    scales = _best_scales(blocks)
    widest = np.take_along_axis(scales, np.abs(scales).argmax(-1)[:, None], -1)
    d = (widest / -128).astype(np.float16).astype(np.float32)
    codes = np.clip(np.rint(np.divide(scales, d, out=np.zeros_like(scales), where=d != 0)), -128, 127)
    step = (d * codes)[..., None]
    q = np.clip(np.rint(np.divide(blocks, step, out=np.zeros_like(blocks), where=step != 0)), -32, 31) + 32
    q = q.astype(np.uint8).reshape(-1, 2, 4, 32)  # each half: four rows of 32 share 64 bytes of low bits, 32 of high
    low = np.stack([(q[:, :, 0] & 15) | (q[:, :, 2] & 15) << 4, (q[:, :, 1] & 15) | (q[:, :, 3] & 15) << 4], axis=2)
    high = q[:, :, 0] >> 4 | (q[:, :, 1] >> 4) << 2 | (q[:, :, 2] >> 4) << 4 | (q[:, :, 3] >> 4) << 6
    return np.concatenate(
        [low.reshape(-1, 128), high.reshape(-1, 64), codes.astype(np.int8).view(np.uint8), _f16(d)], axis=1
    )


def _best_scales(blocks: Floats) -> Floats:
    """The scale (of either sign) of each block of least squared error among a few starting points, each refitted."""
    peak = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)
    peak = np.where(peak == 0, 1e-12, peak)
    best = np.full(blocks.shape[:-1], np.inf, np.float32)
    scales = np.zeros_like(best)
    for top in np.arange(-33.0, -30.0, 0.1):
        q = np.clip(np.rint(blocks * (top / peak)), -32, 31)
        scale = (q * blocks).sum(-1) / np.maximum((q * q).sum(-1), 1e-12)
        error = ((scale[..., None] * q - blocks) ** 2).sum(-1)
        scales = np.where(error < best, scale, scales)
        best = np.minimum(error, best)
    return scales


def _f16(step: Floats) -> Bytes:
    return step.astype(np.float16).view(np.uint8)
