"""What network a GGUF file holds, as data: dimensions and options, checked against the tensors that are there.

qwen2, qwen3 and llama are one network with other options, so a `ModelSpec` is all that the engine needs to know.
Whatever a file asks for that this network does not do (experts, YaRN, sliding windows, an unknown tensor) is refused
by name: a model that runs with a part left out gives wrong answers that look like answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from app.engine.formats import FORMATS, GGMLType
from app.engine.gguf import GGUFFile
from app.engine.spec_fields import SpecFields
from app.errors import ModelFileError, UnsupportedModelError, printable

RopeStyle = Literal["halves", "pairs"]

ROPE_STYLES: Mapping[str, RopeStyle] = MappingProxyType({"qwen2": "halves", "qwen3": "halves", "llama": "pairs"})
"""The architectures that run, and which elements of a head RoPE turns together: (i, i + head_dim/2) or (2i, 2i + 1)."""

_VECTOR_TYPES = (GGMLType.F32, GGMLType.F16, GGMLType.BF16)
_QKV_BIAS = re.compile(r"blk\.\d+\.attn_[qkv]\.bias")


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
        fields = SpecFields(gguf)
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

    def _check_dimensions(self, fields: SpecFields) -> None:
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

    def _check_tensors(self, fields: SpecFields) -> None:
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
            "keep all parts in one folder under the names that they were published under",
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
