"""How many bytes a token reads, which is what decoding is held against."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

F16 = 2  # bytes


@dataclass(frozen=True)
class BytesRead:
    """Of one step of decoding. `weights`: all layers and the LM head, as they are stored in the file, so that no
    engine's own padding counts; an embedding that is not the head as well is left out, for a step reads one row of it.
    `cache_token`: keys and values, f16, of one token that lies in the cache.
    """

    weights: int
    cache_token: int

    def at(self, depth: float) -> float:
        """Bytes of a step with `depth` tokens in the cache."""
        return self.weights + depth * self.cache_token


def bytes_read(path: Path) -> BytesRead:
    from app.engine.gguf import read_gguf
    from app.engine.spec import ModelSpec

    with read_gguf(path) as gguf:
        spec = ModelSpec.from_gguf(gguf)
        tensors = [t for t in gguf.tensors.values() if spec.tied_head or t.name != "token_embd.weight"]
        return BytesRead(sum(t.n_bytes for t in tensors), 2 * spec.n_layers * spec.n_kv_heads * spec.head_dim * F16)
