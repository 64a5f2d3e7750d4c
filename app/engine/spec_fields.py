"""The metadata that describes a network: each value checked as it is read, and another network refused by name."""

from __future__ import annotations

import math
from collections.abc import Mapping

from app.engine.gguf import GGUFFile, TensorInfo
from app.errors import ModelFileError, UnsupportedModelError, printable

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

_MAX_COUNT = 2**31 - 1


class SpecFields:
    """The metadata of one file, by keys under its architecture's prefix; `check_runnable` has accepted that one."""

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
