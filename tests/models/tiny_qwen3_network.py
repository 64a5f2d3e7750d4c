"""The Qwen3 network in PyTorch, as small as the tests need it, with its way to a GGUF file and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tests.models.tiny_qwen3_gguf import Shape

MATRICES = {  # attribute -> GGUF name within a layer
    "wq": "attn_q",
    "wk": "attn_k",
    "wv": "attn_v",
    "wo": "attn_output",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}
NORMS = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "q_norm": "attn_q_norm", "k_norm": "attn_k_norm"}


ATTENTION = ["wq", "wk", "wv", "wo", "q_norm", "k_norm"]


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE over halves; x is [batch, length, heads, head_dim], cos and sin [length, 1, head_dim / 2]."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _attention(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    norm: Tensor,
    wq: Tensor,
    wk: Tensor,
    wv: Tensor,
    wo: Tensor,
    q_norm: Tensor,
    k_norm: Tensor,
    eps: float,
) -> Tensor:
    batch, length, _ = x.shape
    heads = (batch, length, -1, q_norm.shape[0])
    h = _norm(x, norm, eps)
    q = _rotate(_norm(F.linear(h, wq).view(heads), q_norm, eps), cos, sin).transpose(1, 2)
    k = _rotate(_norm(F.linear(h, wk).view(heads), k_norm, eps), cos, sin).transpose(1, 2)
    v = F.linear(h, wv).view(heads).transpose(1, 2)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return F.linear(mixed.transpose(1, 2).reshape(batch, length, -1), wo)


def _feed_forward(x: Tensor, norm: Tensor, gate: Tensor, up: Tensor, down: Tensor, eps: float) -> Tensor:
    h = _norm(x, norm, eps)
    return F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)


class TinyQwen3(nn.Module):
    """Qwen3 with tied embeddings. Each kind of weight is one tensor over the layers: [n_layers, rows, columns]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        n, d = shape.n_layers, shape.d_model
        q, kv = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
        self.embedding = nn.Parameter(torch.randn(shape.vocab_size, d) * 0.05)
        sizes = {"wq": (q, d), "wk": (kv, d), "wv": (kv, d), "wo": (d, q)}
        sizes |= {"gate": (shape.d_ff, d), "up": (shape.d_ff, d), "down": (d, shape.d_ff)}
        for name, (rows, columns) in sizes.items():
            scale = 0.1 if name in ("wo", "down") else 0.5
            setattr(self, name, nn.Parameter(torch.randn(n, rows, columns) * scale / columns**0.5))
        for name in ("attn_norm", "ffn_norm"):
            setattr(self, name, nn.Parameter(torch.ones(n, d)))
        for name in ("q_norm", "k_norm"):
            setattr(self, name, nn.Parameter(torch.ones(n, shape.head_dim)))
        self.output_norm = nn.Parameter(torch.full((d,), 0.12))
        angles = torch.arange(1024)[:, None] * shape.rope_theta ** (
            -torch.arange(0, shape.head_dim, 2) / shape.head_dim
        )
        self.register_buffer("cos", angles.cos()[:, None], persistent=False)  # [position, 1, head_dim / 2]
        self.register_buffer("sin", angles.sin()[:, None], persistent=False)
        self._begin_with_an_induction_head()

    @torch.no_grad()
    def _begin_with_an_induction_head(self) -> None:
        """Sets the first head of the first two layers to find what followed the last time a token was there.

        Such a pair of heads, which copying and looking up need, takes gradient descent longer to find than all the rest
        that this model learns. Channels 0-127 hold the token, 128-254 the token before it, and 255 is constant.
        """
        shape, n = self.shape, self.shape.head_dim
        self.embedding[:, :n] *= 10
        self.embedding[:, -1] = 3.0
        same = torch.arange(n)
        # Layer 0 looks one position back, by the fastest rotations alone, and notes the token that it sees there.
        fast = torch.arange(4)
        angle = shape.rope_theta ** (-2.0 * fast / n)
        self.wq[0, :n] = self.wk[0, :n] = 0
        self.wq[0, fast, -1] = 1.0
        self.wk[0, fast, -1], self.wk[0, fast + n // 2, -1] = angle.cos(), angle.sin()
        # Layer 1 looks for the token in the notes, by the slow rotations, which hardly depend on the distance.
        slow = torch.cat((torch.arange(24, n // 2), torch.arange(n // 2 + 24, n)))
        self.wq[1, :n] = self.wk[1, :n] = 0
        self.wq[1, slow, : len(slow)] = torch.eye(len(slow))
        self.wk[1, slow, n : n + len(slow)] = torch.eye(len(slow))
        for layer, first_channel, gain in ((0, n, 0.4), (1, 0, 0.8)):
            self.wv[layer, :n] = 0
            self.wv[layer, same, same] = 1.0
            self.wo[layer, :, :n] = 0
            self.wo[layer, first_channel + same[:-1], same[:-1]] = gain

    def forward(self, tokens: Tensor, wanted: Tensor, rounded: bool = False) -> Tensor:
        """tokens [batch, length]; wanted: bool [batch, length] -> logits [wanted rows, vocab].

        With `rounded` the matrices are used as a Q4_0 file would hold them, and learn to live with it.
        """
        shape = self.shape
        length = tokens.shape[1]
        matrices = {name: _round_q4_0(getattr(self, name)) if rounded else getattr(self, name) for name in MATRICES}
        x = F.embedding(tokens, self.embedding)  # [batch, length, d_model]
        cos, sin = self.cos[:length], self.sin[:length]
        for i in range(shape.n_layers):
            layer = {name: stacked[i] for name, stacked in matrices.items()}
            layer |= {name: getattr(self, name)[i] for name in NORMS}
            x = x + _attention(x, cos, sin, layer["attn_norm"], *(layer[n] for n in ATTENTION), shape.norm_eps)
            x = x + _feed_forward(x, layer["ffn_norm"], layer["gate"], layer["up"], layer["down"], shape.norm_eps)
        return F.linear(_norm(x[wanted], self.output_norm, shape.norm_eps), self.embedding)

    def gguf_weights(self) -> dict[str, np.ndarray]:
        weights = {"token_embd.weight": self.embedding, "output_norm.weight": self.output_norm}
        for i in range(self.shape.n_layers):
            for name, gguf_name in (NORMS | MATRICES).items():
                weights[f"blk.{i}.{gguf_name}.weight"] = getattr(self, name)[i]
        return {name: weight.detach().numpy().astype(np.float32) for name, weight in weights.items()}

    @torch.no_grad()
    def begin_with(self, saved: Mapping[str, Tensor]) -> None:
        """Takes saved weights. Layers that they lack stay as they were made, but add nothing to the others yet."""
        for name, weight in saved.items():
            own = getattr(self, name)
            if own.shape == weight.shape:
                own.copy_(weight)
            else:
                own[: len(weight)] = weight
                if name in ("wo", "down"):
                    own[len(weight) :] = 0

    def load_gguf(self, path: Path) -> None:
        """Takes the weights as the file holds them, rounded."""
        tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}
        with torch.no_grad():
            self.embedding.copy_(torch.from_numpy(tensors["token_embd.weight"]))
            self.output_norm.copy_(torch.from_numpy(tensors["output_norm.weight"]))
            for i in range(self.shape.n_layers):
                for name, gguf_name in (NORMS | MATRICES).items():
                    getattr(self, name)[i].copy_(torch.from_numpy(tensors[f"blk.{i}.{gguf_name}.weight"]))


def _round_q4_0(weight: Tensor) -> Tensor:
    """The values that Q4_0 keeps; the gradient passes as if nothing had been rounded."""
    with torch.no_grad():
        blocks = weight.reshape(-1, 32)
        step = blocks.gather(1, blocks.abs().argmax(1, keepdim=True)) / -8
        step = torch.where(step == 0, 1e-12, step)
        change = (blocks / step).round_().clamp_(-8, 7).mul_(step).view_as(weight) - weight
    return weight + change
