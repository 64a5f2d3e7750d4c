"""The network in plain NumPy, on one screen: the oracle for every kernel and every device.

Its operations come from numerics.py, so a device that follows docs/numerics.md gives the same bits. `trace(name,
array)` receives what QCHAT_TRACE writes, under the same names (see cpu/trace.py). Sources: Touvron et al. 2023 (the
network), the Qwen3 report 2025 (QK-norm), Su et al. 2021 (RoPE).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine import numerics
from app.engine.formats import dequantise
from app.engine.gguf import GGUFFile
from app.engine.numerics import Floats
from app.engine.rope import pairs_to_halves, rope_tables
from app.engine.spec import ModelSpec

Trace = Callable[[str, NDArray[Any]], None]


class ReferenceDecoder:
    """A `generate.Decoder` that is right before it is anything else."""

    chunk = 64

    def __init__(
        self, gguf: GGUFFile, *, n_ctx: int | None = None, kv: str = "f16", trace: Trace | None = None
    ) -> None:
        self.spec = ModelSpec.from_gguf(gguf)
        self.n_ctx = n_ctx or self.spec.context_length
        self._gguf, self._kv, self._trace = gguf, kv, trace or (lambda name, array: None)
        factors = self._tensor("rope_freqs.weight") if self.spec.rope_factors else None
        self._cos, self._sin = rope_tables(self.spec, factors, self.n_ctx)
        shape = (self.spec.n_layers, 0, self.spec.n_kv_heads, self.spec.head_dim)
        self._keys = self._values = np.zeros(shape, np.float32)  # [layers, positions, KV heads, head_dim]

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self._keys.shape[1]

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        self._keys, self._values = self._keys[:, :length], self._values[:, :length]

    def interrupt(self) -> None:
        """A forward call here is not worth interrupting."""

    def forward(self, tokens: Sequence[int], n_logits: int) -> Floats:
        """Append `tokens`; float32 [n_logits, vocab] after each of the last ones."""
        spec, n = self.spec, len(tokens)
        x = self._tensor("token_embd.weight")[np.asarray(tokens)]  # [tokens, d_model]
        new_keys, new_values = [], []
        for layer in range(spec.n_layers):
            prefix = f"blk.{layer}."
            normed = self._norm(x, prefix + "attn_norm.weight")
            q = self._project(normed, prefix + "attn_q").reshape(n, spec.n_heads, spec.head_dim)
            k = self._project(normed, prefix + "attn_k").reshape(n, spec.n_kv_heads, spec.head_dim)
            v = self._project(normed, prefix + "attn_v").reshape(n, spec.n_kv_heads, spec.head_dim)
            if spec.qk_norm:
                q, k = self._norm(q, prefix + "attn_q_norm.weight"), self._norm(k, prefix + "attn_k_norm.weight")
            q, k = self._rotate(q), self._rotate(k)
            keys = np.concatenate((self._keys[layer], numerics.cached(k, self._kv)))
            values = np.concatenate((self._values[layer], numerics.cached(v, self._kv)))
            attention = self._attend(q, keys, values)  # [tokens, heads * head_dim]
            x = x + self._project(attention, prefix + "attn_output")
            self._trace(f"{layer:02d}.1-queries", q)
            self._trace(f"{layer:02d}.3-attention", attention)
            self._trace(f"{layer:02d}.3-residual", x)
            normed = self._norm(x, prefix + "ffn_norm.weight")
            gate, up = self._project(normed, prefix + "ffn_gate"), self._project(normed, prefix + "ffn_up")
            hidden = numerics.silu_times(gate, up)  # [tokens, d_ff]
            x = x + self._project(hidden, prefix + "ffn_down")
            self._trace(f"{layer:02d}.4-ffn", hidden)
            self._trace(f"{layer:02d}.5-residual", x)
            new_keys.append(keys)
            new_values.append(values)
        self._keys, self._values = np.stack(new_keys), np.stack(new_values)
        last = self._norm(x[n - n_logits :], "output_norm.weight")
        logits = self._project(last, "token_embd" if spec.tied_head else "output")
        self._trace("logits", logits)
        return logits

    def _tensor(self, name: str) -> Floats:
        """A tensor as float32, [rows, columns] or [n]."""
        info = self._gguf.tensors[name]
        return dequantise(self._gguf.read(name), info.type, info.shape[0]).reshape(info.shape[::-1])

    def _project(self, x: Floats, name: str) -> Floats:
        """x [tokens, columns] times the matrix, + bias; llama's query and key rows go from pairs to halves."""
        y = numerics.multiply(x, self._gguf.read(name + ".weight"), self._gguf.tensors[name + ".weight"].type)
        if name + ".bias" in self._gguf.tensors:
            y = y + self._tensor(name + ".bias")
        if self.spec.rope_style == "pairs" and name.endswith(("attn_q", "attn_k")):
            y = y.reshape(len(x), -1, self.spec.head_dim)[..., pairs_to_halves(self.spec.head_dim)]
        return y.reshape(len(x), -1)

    def _norm(self, x: Floats, name: str) -> Floats:
        return numerics.rms_norm(x, self._tensor(name), self.spec.norm_eps)

    def _rotate(self, x: Floats) -> Floats:
        """RoPE at the positions that follow the cache."""
        at = slice(self.length, self.length + len(x))
        return numerics.rotate(x, self._cos[at], self._sin[at])

    def _attend(self, q: Floats, keys: Floats, values: Floats) -> Floats:
        """Each token's heads over the positions up to its own; query heads share KV heads in groups."""
        group = self.spec.n_heads // self.spec.n_kv_heads
        keys, values = np.repeat(keys, group, axis=1), np.repeat(values, group, axis=1)
        rows = [
            numerics.attend(q[t], keys[: self.length + t + 1], values[: self.length + t + 1]) for t in range(len(q))
        ]
        return np.stack(rows).reshape(len(q), -1)
