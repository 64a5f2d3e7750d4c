"""What network a GGUF file holds, as data: dimensions and options, checked against the tensors that are there.

qwen2, qwen3 and llama are one network with other options, so a `ModelSpec` is all that the engine needs to know.
Whatever a file asks for that this network does not do (experts, YaRN, sliding windows, an unknown tensor) is refused
by name: a model that runs with a part left out gives wrong answers that look like answers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from app.engine.formats import FORMATS, GGMLType
from app.engine.gguf import GGUFFile, TensorInfo
from app.errors import ModelFileError, UnsupportedModelError, printable

RopeStyle = Literal["halves", "pairs"]

ROPE_STYLES: Mapping[str, RopeStyle] = MappingProxyType({"qwen2": "halves", "qwen3": "halves", "llama": "pairs"})
"""The architectures that run, and which elements of a head RoPE turns together: (i, i + head_dim/2) or (2i, 2i + 1)."""

# Keys under "ARCHITECTURE." that would change the network, with the values at which they change nothing.
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "expert_count": (0,),
    "pooling_type": (0,),
    "attention.causal": (True,),
    "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,),
    "attention.scale": (0,),
    "attn_logit_softcapping": (0,),
    "final_logit_softcapping": (0,),
    "logit_scale": (0, 1),
    "residual_scale": (0, 1),
    "embedding_scale": (0, 1),
    "rope.scaling.attn_factor": (0, 1),
}

_VECTOR_TYPES = (GGMLType.F32, GGMLType.F16, GGMLType.BF16)
_QKV_BIAS = re.compile(r"blk\.\d+\.attn_[qkv]\.bias")
_MAX_COUNT = 2**31 - 1


@dataclass(frozen=True)
class ModelSpec:
    """One dense transformer. Sizes are in elements; `rope_scale` divides positions (linear scaling), 1.0 for none."""

    architecture: str
    name: str
    n_layers: int
    d_model: int
    d_ff: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    norm_eps: float
    rope_theta: float
    rope_style: RopeStyle
    rope_scale: float
    rope_factors: bool
    qk_norm: bool
    qkv_bias: bool
    tied_head: bool

    @classmethod
    def from_gguf(cls, gguf: GGUFFile) -> ModelSpec:
        """The network of `gguf`, with every tensor's presence, shape and type checked; no weight is read.

        UnsupportedModelError where the file asks for something else than the engine does, ModelFileError where the
        file contradicts itself.
        """
        check_runnable(gguf)
        fields = _Fields(gguf)
        architecture = fields.architecture
        fields.refuse_other_networks()
        embedding = gguf.tensors.get("token_embd.weight")
        if embedding is None:
            raise fields.broken("tensor token_embd.weight is missing")
        d_model = fields.count("embedding_length")
        n_heads = fields.count("attention.head_count")
        head_dim = fields.head_dim(d_model, n_heads)
        spec = cls(
            architecture=architecture,
            name=fields.name(),
            n_layers=fields.count("block_count", most=len(gguf.tensors)),
            d_model=d_model,
            d_ff=fields.count("feed_forward_length"),
            n_heads=n_heads,
            n_kv_heads=fields.count("attention.head_count_kv", default=n_heads),
            head_dim=head_dim,
            vocab_size=fields.vocab_size(embedding),
            context_length=fields.count("context_length"),
            norm_eps=fields.number("attention.layer_norm_rms_epsilon"),
            rope_theta=fields.number("rope.freq_base", default=10000.0),
            rope_style=ROPE_STYLES[architecture],
            rope_scale=fields.rope_scale(),
            rope_factors=architecture == "llama" and "rope_freqs.weight" in gguf.tensors,
            qk_norm=architecture == "qwen3",
            qkv_bias=architecture == "qwen2"
            or (architecture == "llama" and any(_QKV_BIAS.fullmatch(name) for name in gguf.tensors)),
            tied_head="output.weight" not in gguf.tensors,
        )
        spec._check_dimensions(fields)
        spec._check_tensors(fields)
        return spec

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of the network by name, with its shape in GGUF order (columns first)."""
        q_dim, kv_dim = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        layer: dict[str, tuple[int, ...]] = {
            "attn_norm.weight": (self.d_model,),
            "attn_q.weight": (self.d_model, q_dim),
            "attn_k.weight": (self.d_model, kv_dim),
            "attn_v.weight": (self.d_model, kv_dim),
            "attn_output.weight": (q_dim, self.d_model),
            "ffn_norm.weight": (self.d_model,),
            "ffn_gate.weight": (self.d_model, self.d_ff),
            "ffn_up.weight": (self.d_model, self.d_ff),
            "ffn_down.weight": (self.d_ff, self.d_model),
        }
        if self.qkv_bias:
            layer |= {"attn_q.bias": (q_dim,), "attn_k.bias": (kv_dim,), "attn_v.bias": (kv_dim,)}
        if self.qk_norm:
            layer |= {"attn_q_norm.weight": (self.head_dim,), "attn_k_norm.weight": (self.head_dim,)}
        shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (self.d_model, self.vocab_size)}
        for index in range(self.n_layers):
            shapes |= {f"blk.{index}.{part}": shape for part, shape in layer.items()}
        shapes["output_norm.weight"] = (self.d_model,)
        if not self.tied_head:
            shapes["output.weight"] = (self.d_model, self.vocab_size)
        if self.rope_factors:
            shapes["rope_freqs.weight"] = (self.head_dim // 2,)
        return shapes

    def _check_dimensions(self, fields: _Fields) -> None:
        if self.n_heads % self.n_kv_heads:
            raise fields.broken(f"{self.n_heads} attention heads cannot share {self.n_kv_heads} key-value heads")
        packed = (
            ("attention.key_length", self.head_dim, 16),
            ("embedding_length", self.d_model, 32),
            ("feed_forward_length", self.d_ff, 32),
            ("attention.head_count times attention.key_length", self.n_heads * self.head_dim, 32),
        )
        for key, value, unit in packed:
            if value % unit:
                raise fields.unsupported(
                    f"{key} is {value:,}, and qchat needs a multiple of {unit}",
                    "no release of qchat runs this shape yet",
                )

    def _check_tensors(self, fields: _Fields) -> None:
        tensors, shapes = fields.gguf.tensors, self.tensor_shapes()
        missing = [name for name in shapes if name not in tensors]
        if missing:
            others = f", as are {len(missing) - 1:,} others" if len(missing) > 1 else ""
            raise fields.broken(f"tensor {missing[0]} of a {self.architecture} network is missing{others}")
        for name, info in tensors.items():
            if name not in shapes:
                raise fields.unsupported(
                    f"tensor {printable(name)} is not part of the {self.architecture} network that qchat runs",
                    "leaving it out would give wrong answers; look for another conversion of the model",
                )
            if info.shape != shapes[name]:
                raise fields.broken(f"tensor {name} has the shape {list(info.shape)}, expected {list(shapes[name])}")
            if len(info.shape) == 1 and info.type not in _VECTOR_TYPES:
                raise fields.unsupported(
                    f"tensor {name} is {info.type.name}; a vector must be F32, F16 or BF16",
                    "look for another conversion",
                )


def check_runnable(gguf: GGUFFile) -> None:
    """Refuse a file whose architecture or tensor types qchat does not run, or that is one part of a split model.

    UnsupportedModelError, or ModelFileError where the file does not say its architecture. This is the question of a
    list of models: cheap, and the first thing that is wrong is named.
    """
    shown = printable(gguf.path.name)
    supported = f"qchat runs {', '.join(ROPE_STYLES)}"
    architecture = gguf.metadata.get("general.architecture")
    if architecture is None:
        raise ModelFileError(f"{shown} does not say its architecture: general.architecture is missing", supported)
    if not isinstance(architecture, str):
        raise ModelFileError(f"{shown}: general.architecture is not a string", supported)
    if architecture not in ROPE_STYLES:
        raise UnsupportedModelError(
            f"{shown} has the architecture '{printable(architecture)}', which qchat does not run", supported
        )
    parts = gguf.metadata.get("split.count", 0)
    if isinstance(parts, int) and parts > 1:
        raise UnsupportedModelError(
            f"{shown} is one of {parts:,} parts of a model",
            "join the parts: llama-gguf-split --merge FIRST_PART OUTPUT",
        )
    for info in gguf.tensors.values():
        if info.type not in FORMATS:
            kind = f"{info.type.name} (type {info.type.value})" if info.type.is_known else info.type.name
            raise UnsupportedModelError(
                f"{shown}: tensor {printable(info.name)} is {kind}, a newer or unsupported quantisation; "
                "the file itself may be fine",
                f"qchat runs {', '.join(form.name for form in FORMATS.values())}",
            )


@dataclass(frozen=True)
class MemoryFacts:
    """What a model takes: tensor bytes as stored, tensors of each type, cache bytes of one token by cache type."""

    tensor_bytes: int
    type_counts: Mapping[str, int]
    kv_bytes_per_token: Mapping[str, int]


def memory_facts(gguf: GGUFFile, spec: ModelSpec) -> MemoryFacts:
    """The sizes that decide whether a model fits. A q8_0 cache holds every head as blocks of 32 in 34 bytes."""
    vectors = 2 * spec.n_layers * spec.n_kv_heads  # a key and a value
    per_vector = {"f32": 4 * spec.head_dim, "f16": 2 * spec.head_dim, "q8_0": 34 * -(-spec.head_dim // 32)}
    return MemoryFacts(
        tensor_bytes=gguf.tensor_bytes(),
        type_counts=gguf.type_counts(),
        kv_bytes_per_token={kind: vectors * n_bytes for kind, n_bytes in per_vector.items()},
    )


class _Fields:
    """The metadata of one file under its architecture's prefix, each value checked as it is read."""

    def __init__(self, gguf: GGUFFile) -> None:
        self.gguf = gguf
        self.architecture: str = gguf.metadata["general.architecture"]

    def broken(self, what: str) -> ModelFileError:
        return ModelFileError(f"{printable(self.gguf.path.name)}: {what}", "the file is damaged or a faulty conversion")

    def unsupported(self, what: str, hint: str) -> UnsupportedModelError:
        return UnsupportedModelError(f"{printable(self.gguf.path.name)}: {what}", hint)

    def scalar(self, key: str) -> bool | int | float | str | None:
        """The value of ARCHITECTURE.key, None where it is not there; a list is refused."""
        value = self.gguf.metadata.get(f"{self.architecture}.{key}")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise self.unsupported(f"{self.architecture}.{key} is a list", "qchat runs networks whose layers are all alike")

    def count(self, key: str, default: int | None = None, most: int = _MAX_COUNT) -> int:
        """A whole number from 1 to `most`; without a default the key must be there."""
        value = self.scalar(key)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.broken(f"{self.architecture}.{key} is missing")
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.broken(f"{self.architecture}.{key} is not a whole number")
        if not 1 <= value <= most:
            raise self.broken(f"{self.architecture}.{key} is {value:,}; 1 to {most:,} are possible")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number above zero; without a default the key must be there."""
        value = self.scalar(key)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.broken(f"{self.architecture}.{key} is missing")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.broken(f"{self.architecture}.{key} is not a number")
        if not (math.isfinite(value) and value > 0):
            raise self.broken(f"{self.architecture}.{key} is {value}; it must be above zero")
        return float(value)

    def name(self) -> str:
        """general.name made safe to show, or the file's name."""
        name = self.gguf.metadata.get("general.name")
        return printable(name if isinstance(name, str) and name.strip() else self.gguf.path.stem)

    def vocab_size(self, embedding: TensorInfo) -> int:
        """Rows of the embedding, which must be as many as the tokenizer has tokens where the file has a tokenizer."""
        if len(embedding.shape) != 2:
            raise self.broken(
                f"tensor token_embd.weight has the shape {list(embedding.shape)}, expected two dimensions"
            )
        rows = embedding.shape[1]
        tokens = self.gguf.metadata.get("tokenizer.ggml.tokens")
        if tokens is not None and len(tokens) != rows:
            raise self.broken(f"tensor token_embd.weight has {rows:,} rows for a vocabulary of {len(tokens):,} tokens")
        return rows

    def head_dim(self, d_model: int, n_heads: int) -> int:
        """attention.key_length, or d_model / n_heads where the file does not say."""
        if self.scalar("attention.key_length") is None and d_model % n_heads:
            raise self.broken(
                f"embedding_length {d_model:,} cannot be shared by {n_heads:,} heads, and key_length is missing"
            )
        head_dim = self.count("attention.key_length", default=d_model // n_heads)
        for key, meaning in (("attention.value_length", "values"), ("rope.dimension_count", "rotated parts")):
            length = self.count(key, default=head_dim)
            if length != head_dim:
                raise self.unsupported(
                    f"{self.architecture}.{key} is {length:,} where keys have {head_dim:,}",
                    f"qchat runs heads whose {meaning} are as long as their keys",
                )
        return head_dim

    def rope_scale(self) -> float:
        """The factor of linear RoPE scaling; a factor without a type means linear, as in llama.cpp."""
        kind = self.scalar("rope.scaling.type")
        if kind not in (None, "none", "linear"):
            raise self.unsupported(
                f"{self.architecture}.rope.scaling.type is {printable(str(kind))}, which qchat does not run",
                "look for a conversion of the model without RoPE scaling; linear scaling runs too",
            )
        keys = [key for key in ("rope.scaling.factor", "rope.scale_linear") if self.scalar(key) not in (None, 0)]
        if kind == "none" or (kind is None and not keys):
            return 1.0
        return self.number(keys[0] if keys else "rope.scaling.factor")

    def refuse_other_networks(self) -> None:
        """UnsupportedModelError for the first key that asks for another network."""
        for key, neutral in _NEUTRAL.items():
            value = self.scalar(key)
            if value is not None and value not in neutral:
                raise self.unsupported(
                    f"{self.architecture}.{key} is {printable(str(value))}, which qchat does not run",
                    "the network that this file asks for is another one",
                )
        window = self.scalar("attention.sliding_window")
        if window not in (None, 0) and self.count("attention.sliding_window") < self.count("context_length"):
            raise self.unsupported(
                f"{self.architecture}.attention.sliding_window is {window:,}, which qchat does not run",
                "qchat attends to the whole context",
            )
