"""What a model file is, in facts: for `models show`, `models list` and their --json."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.engine.gguf import GGUFFile, read_model
from app.engine.spec import ModelSpec
from app.errors import ModelFileError
from app.hub.fit import kv_bytes_per_token


def describe(path: Path, kv: str = "f16") -> dict[str, Any]:
    """Every fact about the file at `path`, JSON-ready. Text in it is as the file has it: escape it before showing it.

    A readable file that the engine does not run has `runnable` false and the reason in `problem`; ModelFileError only
    where the header itself cannot be read.
    """
    with read_model(path) as gguf:
        return {
            "path": str(path),
            "files": [str(file) for file in gguf.paths],
            "file_bytes": gguf.size,
            "parameters": sum(math.prod(info.shape) for info in gguf.tensors.values()),
            "tensors": gguf.type_counts(),
            "chat_template": _template(gguf.metadata.get("tokenizer.chat_template")),
            "tokenizer": _tokenizer(gguf.metadata),
            **_outline(gguf, kv),
        }


def outline(path: Path, kv: str = "f16") -> dict[str, Any]:
    """What a list tells of the file at `path`, as of `describe`; a large vocabulary is skipped, not looked through."""
    with read_model(path, texts=False) as gguf:
        return _outline(gguf, kv)


def _outline(gguf: GGUFFile, kv: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": _text(gguf.metadata.get("general.name")),
        "architecture": _text(gguf.metadata.get("general.architecture")),
        "licence": _text(gguf.metadata.get("general.license")),
        "quantisation": main_quantisation(gguf),
    }
    try:
        spec = ModelSpec.from_gguf(gguf)
    except ModelFileError as error:
        return facts | {"runnable": False, "problem": error.message}
    return facts | {"runnable": True, "network": _network(spec), "memory": _memory(gguf, spec, kv)}


def main_quantisation(gguf: GGUFFile) -> str:
    """The type that holds most of the bytes."""
    held: Counter[str] = Counter()
    for info in gguf.tensors.values():
        held[info.type.name] += info.n_bytes
    return held.most_common(1)[0][0] if held else "none"


def _network(spec: ModelSpec) -> dict[str, Any]:
    return {
        "layers": spec.n_layers,
        "d_model": spec.d_model,
        "d_ff": spec.d_ff,
        "heads": spec.n_heads,
        "kv_heads": spec.n_kv_heads,
        "head_dim": spec.head_dim,
        "vocabulary": spec.vocab_size,
        "context": spec.context_length,
        "rope_theta": spec.rope_theta,
        "qk_norm": spec.qk_norm,
        "qkv_bias": spec.qkv_bias,
        "tied_head": spec.tied_head,
    }


def _memory(gguf: GGUFFile, spec: ModelSpec, kv: str) -> dict[str, Any]:
    """Bytes: the weights, the cache of one token, and both with the whole context in use."""
    weights = gguf.tensor_bytes()
    per_token = kv_bytes_per_token(spec.n_layers, spec.n_kv_heads, spec.head_dim, kv)
    full = per_token * spec.context_length
    return {
        "kv": kv,
        "weights_bytes": weights,
        "kv_bytes_per_token": per_token,
        "kv_bytes_full_context": full,
        "total_bytes_full_context": weights + full,
    }


def _template(template: Any) -> dict[str, Any] | None:
    if not isinstance(template, str):
        return None
    return {
        "characters": len(template),
        "thinking_switch": "enable_thinking" in template,
        "thinks": "<think>" in template,
        "tools": "tools" in template,
    }


def _tokenizer(metadata: Mapping[str, Any]) -> dict[str, Any]:
    tokens = metadata.get("tokenizer.ggml.tokens", [])

    def token(key: str) -> dict[str, Any] | None:
        number = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if not isinstance(number, int) or isinstance(number, bool):
            return None
        return {"id": number, "text": tokens[number] if 0 <= number < len(tokens) else None}

    return {
        "model": _text(metadata.get("tokenizer.ggml.model")),
        "splitting_rule": _text(metadata.get("tokenizer.ggml.pre")),
        "tokens": len(tokens),
        "merges": len(metadata.get("tokenizer.ggml.merges", [])),
        "bos": token("bos"),
        "eos": token("eos"),
        "adds_bos": bool(metadata.get("tokenizer.ggml.add_bos_token", False)),
    }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
