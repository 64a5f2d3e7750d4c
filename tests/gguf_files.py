"""Small GGUF files for tests: whole random models in every format and architecture, and headers with one fault each.

`write_model` is what most tests want. The parts below it put bytes together by hand, so that a file can also be wrong
in exactly one place; nothing here uses the reader under test.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
from numpy.typing import NDArray

QUANT = gguf.GGMLQuantizationType
F32Array = NDArray[np.float32]
U8Array = NDArray[np.uint8]

UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(13)
_TYPE_OF_DTYPE = {
    "uint8": UINT8,
    "int8": INT8,
    "uint16": UINT16,
    "int16": INT16,
    "uint32": UINT32,
    "int32": INT32,
    "float32": FLOAT32,
    "bool": BOOL,
    "uint64": UINT64,
    "int64": INT64,
    "float64": FLOAT64,
}

# ---------------------------------------------------------------------------------------------- bytes by hand


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def value(item: Any) -> bytes:
    """Type id and payload. str, bool, int (UINT32), float (FLOAT32), NumPy scalars and arrays, lists of str or int."""
    if isinstance(item, str | bytes):
        return struct.pack("<I", STRING) + string(item)
    if isinstance(item, Sequence) and item and isinstance(item[0], str):
        return struct.pack("<IIQ", ARRAY, STRING, len(item)) + b"".join(map(string, item))
    if isinstance(item, list):
        item = np.array(item, np.int32)
    if isinstance(item, np.ndarray):
        return struct.pack("<IIQ", ARRAY, _TYPE_OF_DTYPE[item.dtype.name], item.size) + item.tobytes()
    if isinstance(item, bool):
        item = np.bool_(item)
    elif isinstance(item, int):
        item = np.uint32(item)
    elif isinstance(item, float):
        item = np.float32(item)
    return struct.pack("<I", _TYPE_OF_DTYPE[item.dtype.name]) + item.tobytes()


def entry(key: str | bytes, item: Any) -> bytes:
    """One metadata entry; an `item` of bytearray is taken as type id and payload already."""
    return string(key) + (bytes(item) if isinstance(item, bytearray) else value(item))


@dataclass
class RawTensor:
    """One tensor: dims in GGUF order, any type id, its data, and an offset where the right one is not wanted."""

    name: str | bytes
    dims: Sequence[int]
    type: int = 0
    data: bytes = b""
    offset: int | None = None
    rank: int | None = None


def assemble(
    entries: Sequence[bytes] = (),
    tensors: Sequence[RawTensor] = (),
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    n_tensors: int | None = None,
    n_entries: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A GGUF file; the counts are those of the parts unless given."""

    def padding(length: int) -> bytes:
        return bytes(-length % alignment)

    table, data = b"", bytearray()
    for tensor in tensors:
        rank = len(tensor.dims) if tensor.rank is None else tensor.rank
        table += string(tensor.name) + struct.pack("<I", rank) + struct.pack(f"<{len(tensor.dims)}Q", *tensor.dims)
        table += struct.pack("<IQ", tensor.type, len(data) if tensor.offset is None else tensor.offset)
        data += tensor.data + padding(len(tensor.data))
    head = magic + struct.pack(
        "<IQQ",
        version,
        len(tensors) if n_tensors is None else n_tensors,
        len(entries) if n_entries is None else n_entries,
    )
    head += b"".join(entries) + table
    return head + padding(len(head)) + bytes(data)


# ---------------------------------------------------------------------------------------------- weights


def _pack_k_scales(scale: U8Array, minimum: U8Array) -> U8Array:
    """Two [blocks, 8] of 6-bit values as [blocks, 12] bytes."""
    first = scale[:, :4] | (scale[:, 4:] >> 4) << 6
    second = minimum[:, :4] | (minimum[:, 4:] >> 4) << 6
    shared = scale[:, 4:] & 15 | (minimum[:, 4:] & 15) << 4
    return np.concatenate((first, second, shared), axis=1).astype(np.uint8)


def _divide(a: F32Array, b: F32Array) -> F32Array:
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape), np.float32), where=b != 0)


def _quantise_k(x: F32Array, top: int) -> tuple[U8Array, U8Array, U8Array]:
    """Head bytes (d, dmin, scales) [blocks, 16] and values 0..top [blocks, 8, 32] of Q4_K (15) and Q5_K (31)."""
    sub = x.reshape(-1, 8, 32)
    low = np.minimum(sub.min(axis=2), 0)
    step = (np.maximum(sub.max(axis=2), 0) - low) / np.float32(top)
    d = (step.max(axis=1, keepdims=True) / 63).astype(np.float16)
    dmin = (-low.min(axis=1, keepdims=True) / 63).astype(np.float16)
    scale = np.clip(np.rint(_divide(step, d.astype(np.float32))), 0, 63).astype(np.uint8)
    minimum = np.clip(np.rint(_divide(-low, dmin.astype(np.float32))), 0, 63).astype(np.uint8)
    real_step = (d.astype(np.float32) * scale)[..., None]
    real_low = (dmin.astype(np.float32) * minimum)[..., None]
    q = np.clip(np.rint(_divide(sub + real_low, real_step)), 0, top).astype(np.uint8)
    head = np.concatenate((d.view(np.uint8), dmin.view(np.uint8), _pack_k_scales(scale, minimum)), axis=1)
    return head, _pack_nibbles(q & 15), q


def _pack_nibbles(q: U8Array) -> U8Array:
    """[blocks, 8, 32] values 0..15 as [blocks, 128] bytes: every 32 bytes hold 64 weights, low halves first."""
    pairs = q.reshape(-1, 4, 2, 32)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(-1, 128)


def _q4_k(x: F32Array) -> U8Array:
    head, nibbles, _ = _quantise_k(x, 15)
    return np.concatenate((head, nibbles), axis=1)


def _q5_k(x: F32Array) -> U8Array:
    head, nibbles, q = _quantise_k(x, 31)
    high = np.bitwise_or.reduce((q >> 4) << np.arange(8, dtype=np.uint8)[:, None], axis=1)
    return np.concatenate((head, high, nibbles), axis=1)


def _q6_k(x: F32Array) -> U8Array:
    sub = x.reshape(-1, 16, 16)
    step = np.abs(sub).max(axis=2) / np.float32(31)
    d = (step.max(axis=1, keepdims=True) / 127).astype(np.float16)
    scale = np.rint(_divide(step, d.astype(np.float32))).clip(0, 127).astype(np.int8)
    q = np.clip(np.rint(_divide(sub, (d.astype(np.float32) * scale)[..., None])), -32, 31) + 32
    halves = q.astype(np.uint8).reshape(-1, 2, 4, 32)  # quarters of each half of 128 weights
    low = halves & 15
    nibbles = np.concatenate((low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4), axis=2)
    pairs = np.bitwise_or.reduce((halves >> 4) << np.array([0, 2, 4, 6], np.uint8)[:, None], axis=2)
    return np.concatenate((nibbles.reshape(-1, 128), pairs.reshape(-1, 64), scale.view(np.uint8), d.view(np.uint8)), 1)


_K_QUANTISERS = {"Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k}
# What llama.cpp's quantize writes where a row is not a multiple of 256.
_FALLBACK = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
ALL_TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")


def quantise(x: F32Array, kind: str) -> U8Array:
    """float32 [rows, columns] as format `kind`, uint8 [rows, bytes]; the K formats are rounded simply, not searched."""
    x = np.ascontiguousarray(x, np.float32)
    if kind in _K_QUANTISERS:
        return _K_QUANTISERS[kind](x).reshape(x.shape[0], -1)
    return gguf.quants.quantize(x, QUANT[kind]).view(np.uint8).reshape(x.shape[0], -1)


def fitting_type(kind: str, columns: int) -> str:
    """`kind`, or the format that llama.cpp falls back to where rows of `columns` are not whole blocks of it."""
    if columns % gguf.GGML_QUANT_SIZES[QUANT[kind]][0] == 0:
        return kind
    return fitting_type(_FALLBACK.get(kind, "F16"), columns)


def tensor(name: str, x: F32Array, kind: str = "F32") -> RawTensor:
    """`x` [rows, columns] or [n] as a tensor of type `kind`."""
    rows = x.reshape(-1, x.shape[-1])
    return RawTensor(name, x.shape[::-1], int(QUANT[kind]), quantise(rows, kind).tobytes())


# ---------------------------------------------------------------------------------------------- a tokenizer

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
USER_TOKENS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
MERGES = ("Ġ t", "h e", "i n", "Ġt he", "Ġ a", "o n", "Ġ s", "e r", "in g", "l l", "he ll", "hell o", "Ġ w", "o r")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_characters() -> list[str]:
    """The 256 characters that stand for bytes in a byte-level vocabulary (GPT-2)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def tokenizer_metadata(vocab_size: int | None = None, pre: str = "qwen2") -> dict[str, Any]:
    """A byte-level BPE with a few merges, the Qwen control tokens and a chat template; padded with unused tokens."""
    normal = byte_characters() + [merge.replace(" ", "") for merge in MERGES]
    tokens = [*normal, *CONTROL_TOKENS, *USER_TOKENS]
    unused = [f"[PAD{index}]" for index in range(len(tokens), vocab_size or 0)]
    types = [1] * len(normal) + [3] * len(CONTROL_TOKENS) + [4] * len(USER_TOKENS) + [5] * len(unused)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens + unused,
        "tokenizer.ggml.token_type": np.array(types, np.int32),
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.bos_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


# ---------------------------------------------------------------------------------------------- whole models


@dataclass
class Model:
    """Metadata and tensors of a random model, to be changed before it is written."""

    metadata: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, RawTensor] = field(default_factory=dict)

    def to_bytes(self, version: int = 3) -> bytes:
        return assemble([entry(k, v) for k, v in self.metadata.items()], list(self.tensors.values()), version=version)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.to_bytes())
        return path


def make_model(
    *,
    architecture: str = "qwen3",
    types: str | Mapping[str, str] = "Q8_0",
    n_layers: int = 2,
    d_model: int = 256,
    d_ff: int = 512,
    n_heads: int = 4,
    n_kv_heads: int = 2,
    head_dim: int = 64,
    vocab_size: int | None = None,
    context_length: int = 512,
    norm_eps: float = 1e-6,
    rope_theta: float = 10000.0,
    head: Literal["tied", "own", "copy"] = "tied",
    qkv_bias: bool | None = None,
    qk_norm: bool | None = None,
    rope_factors: bool = False,
    pre: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Model:
    """A random model with a working byte-level tokenizer.

    types       the format of every matrix, or name patterns with formats, the last match wins:
                {"*": "Q4_K", "*ffn_down*": "Q6_K"}; rows that are not whole blocks fall back as in llama.cpp.
                Vectors (norms, biases, rope factors) are F32 unless a pattern other than "*" names them.
    head        tied: no output.weight; own: a random one; copy: the embedding once more
    qkv_bias    default: only for qwen2; qk_norm default: only for qwen3
    metadata    added last; a value None takes the key away
    seed        the same seed gives the same weights before quantisation, whatever `types` and `head` say
    """
    rng = np.random.default_rng(seed)
    patterns = {"*": types} if isinstance(types, str) else types
    qkv_bias = architecture == "qwen2" if qkv_bias is None else qkv_bias
    qk_norm = architecture == "qwen3" if qk_norm is None else qk_norm
    model = Model()

    def kind_of(name: str, default: str, columns: int) -> str:
        matching = [kind for pattern, kind in patterns.items() if fnmatch(name, pattern)]
        if default == "F32":
            matching = [kind for pattern, kind in patterns.items() if pattern != "*" and fnmatch(name, pattern)]
        return fitting_type(matching[-1] if matching else default, columns)

    def matrix(name: str, rows: int, columns: int, std: float | None = None) -> None:
        x = rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(std or columns**-0.5)
        model.tensors[name] = tensor(name, x, kind_of(name, "Q8_0", columns))
        if name == "token_embd.weight" and head == "copy":
            model.tensors["output.weight"] = tensor("output.weight", x, kind_of("output.weight", "Q8_0", columns))

    def vector(name: str, n: int, mean: float, std: float) -> None:
        x = (mean + std * rng.standard_normal(n)).astype(np.float32)
        model.tensors[name] = tensor(name, x, kind_of(name, "F32", n))

    tokenizer = tokenizer_metadata(vocab_size, pre or ("llama-bpe" if architecture == "llama" else "qwen2"))
    n_vocab = len(tokenizer["tokenizer.ggml.tokens"])
    q_dim, kv_dim = n_heads * head_dim, n_kv_heads * head_dim
    matrix("token_embd.weight", n_vocab, d_model, 0.5)
    for index in range(n_layers):
        layer = f"blk.{index}."
        vector(layer + "attn_norm.weight", d_model, 1, 0.1)
        for part, rows in (("q", q_dim), ("k", kv_dim), ("v", kv_dim)):
            matrix(f"{layer}attn_{part}.weight", rows, d_model)
            if qkv_bias:
                vector(f"{layer}attn_{part}.bias", rows, 0, 0.5)
        if qk_norm:
            vector(layer + "attn_q_norm.weight", head_dim, 1, 0.2)
            vector(layer + "attn_k_norm.weight", head_dim, 1, 0.2)
        matrix(layer + "attn_output.weight", d_model, q_dim)
        vector(layer + "ffn_norm.weight", d_model, 1, 0.1)
        matrix(layer + "ffn_gate.weight", d_ff, d_model)
        matrix(layer + "ffn_up.weight", d_ff, d_model)
        matrix(layer + "ffn_down.weight", d_model, d_ff)
    vector("output_norm.weight", d_model, 1, 0.1)
    if head == "own":
        matrix("output.weight", n_vocab, d_model)
    if rope_factors:
        factors = np.linspace(1, 8, head_dim // 2, dtype=np.float32)
        model.tensors["rope_freqs.weight"] = tensor("rope_freqs.weight", factors)

    model.metadata = {
        "general.architecture": architecture,
        "general.name": f"random {architecture}",
        f"{architecture}.block_count": n_layers,
        f"{architecture}.context_length": context_length,
        f"{architecture}.embedding_length": d_model,
        f"{architecture}.feed_forward_length": d_ff,
        f"{architecture}.attention.head_count": n_heads,
        f"{architecture}.attention.head_count_kv": n_kv_heads,
        f"{architecture}.attention.key_length": head_dim,
        f"{architecture}.attention.value_length": head_dim,
        f"{architecture}.attention.layer_norm_rms_epsilon": norm_eps,
        f"{architecture}.rope.freq_base": rope_theta,
        f"{architecture}.rope.dimension_count": head_dim,
        **tokenizer,
        **(metadata or {}),
    }
    model.metadata = {key: item for key, item in model.metadata.items() if item is not None}
    return model


def write_model(path: Path, **options: Any) -> Path:
    """`make_model(**options)` written to `path`."""
    return make_model(**options).write(path)


def split_model(folder: Path, stem: str, model: Model, count: int) -> list[Path]:
    """`model` in `count` files, as `llama-gguf-split` writes them: the first has all metadata."""
    paths = []
    names = list(model.tensors)
    for number in range(count):
        split = {"split.no": np.uint16(number), "split.count": np.uint16(count), "split.tensors.count": len(names)}
        metadata = {**(model.metadata if number == 0 else {}), **split}
        tensors = [model.tensors[name] for name in names[number::count]]
        path = folder / f"{stem}-{number + 1:05d}-of-{count:05d}.gguf"
        path.write_bytes(assemble([entry(key, item) for key, item in metadata.items()], tensors))
        paths.append(path)
    return paths
