"""From projections to attention: bias, QK-norm, RoPE, the pages of the cache, and softmax over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.cuda.layout import CHUNK
from tests.engine.cuda.emulated_device import WARPS
from tests.engine.cuda.one_kernel.bare_kernels import EPS, GROUP, N_HEADS, N_KV_HEADS, BareKernels, Result
from tests.engine.cuda.one_kernel.device_layouts import half_page, half_page_in
from tests.engine.cuda.one_kernel.mathematics import F64, About, add, attend, cached, exactly, rms_norm, rotate


class Conversation:
    """Keys and values of positions before `start` in two pages, projections of the tokens that follow, and tables."""

    def __init__(self, k: BareKernels, start: int, tokens: int, *, extras: bool) -> None:
        self.k, self.start, self.tokens, dim = k, start, tokens, k.head_dim
        rng = np.random.default_rng(start + tokens)
        all_heads = N_HEADS + 2 * N_KV_HEADS
        self.qkv = rng.standard_normal((tokens, all_heads, dim), dtype=np.float32)
        angles = rng.uniform(-3, 3, (start + tokens, dim // 2))
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        self.norms = rng.standard_normal((2, dim), dtype=np.float32) if extras else None
        self.biases = rng.standard_normal((all_heads, dim), dtype=np.float32) if extras else None
        self.pages = [self._page(rng, start - page * CHUNK) for page in range(2)]
        self.qkv_buffer = k.put(self.qkv)
        self.attention = k.room(tokens * N_HEADS * dim * 4)
        self.finished = k.put(np.zeros(N_KV_HEADS, np.uint32))
        layer: dict[str, Any] = {}
        if self.norms is not None and self.biases is not None:
            layer = {"q_norm": k.put(self.norms[0]), "k_norm": k.put(self.norms[1])}
            ends = (0, N_HEADS, N_HEADS + N_KV_HEADS, all_heads)
            for name, first, end in zip(("q_bias", "k_bias", "v_bias"), ends, ends[1:], strict=False):
                layer[name] = k.put(self.biases[first:end])
        self.step = k.step(
            layer, n_tokens=tokens, start=start, norm_eps=EPS, qkv=self.qkv_buffer, attention=self.attention,
            pages=k.put(np.array([page.address for page in self.pages], np.uint64)), max_chunks=2,
            cos=k.put(self.cos), sin=k.put(self.sin), finished=self.finished,
            partials=k.room(8 * N_HEADS * 2 * (dim + 2) * 4),
        )  # fmt: skip

    def _page(self, rng: np.random.Generator, length: int) -> Any:
        """A page of which `length` positions have a value; the others are NaN, or not written at all."""
        k, dim = self.k, self.k.head_dim
        page = k.room(2 * N_KV_HEADS * len(self._half(rng, 0, True)))
        if length > 0:
            halves = [self._half(rng, length, is_key) for _ in range(N_KV_HEADS) for is_key in (True, False)]
            k.device.write(page, np.concatenate(halves))
        assert dim % 16 == 0
        return page

    def _half(self, rng: np.random.Generator, length: int, is_key: bool) -> NDArray[np.uint8]:
        shape = (CHUNK, self.k.head_dim)
        if self.k.kv == "q8_0":
            scales = rng.uniform(0.005, 0.02, (CHUNK, shape[1] // 32)).astype(np.float16)
            scales[max(length, 0) :] = np.nan
            return half_page(rng.integers(-127, 128, shape).astype(np.int8), scales, is_key)
        numbers = rng.standard_normal(shape).astype({"f32": np.float32, "f16": np.float16}[self.k.kv])
        numbers[max(length, 0) :] = np.nan
        return half_page(numbers, None, is_key)

    def cache(self) -> tuple[F64, F64]:
        """The keys and values that are there, float64 [KV heads, positions, head_dim]."""
        pages = np.stack([self.k.read(page) for page in self.pages]).reshape(2, N_KV_HEADS, 2, -1)
        kv, dim = self.k.kv, self.k.head_dim
        both = [
            np.stack([np.concatenate([half_page_in(page[h, half], kv, dim, half == 0) for page in pages])
                      for h in range(N_KV_HEADS)])
            for half in (0, 1)
        ]  # fmt: skip
        return both[0], both[1]

    def heads(self) -> tuple[About, About, About]:
        """Queries, keys and values of the new tokens, [tokens, heads, head_dim]."""
        x = exactly(self.qkv)
        if self.biases is not None:
            x = add(x, exactly(np.broadcast_to(self.biases, self.qkv.shape)))
        q, key, value = x[:, :N_HEADS], x[:, N_HEADS : N_HEADS + N_KV_HEADS], x[:, N_HEADS + N_KV_HEADS :]
        if self.norms is not None:
            q, key = rms_norm(q, self.norms[0], EPS), rms_norm(key, self.norms[1], EPS)
        cos, sin = (table[self.start :].astype(np.float64) for table in (self.cos, self.sin))
        return rotate(q, cos, sin), rotate(key, cos, sin), value

    def attended(self, q: About) -> About:
        """What each query's head gives over the cache as it is now."""
        keys, values = self.cache()
        out = [
            [attend(q[t, h], *(part[h // GROUP, : self.start + t + 1] for part in (keys, values)))
             for h in range(N_HEADS)]
            for t in range(self.tokens)
        ]  # fmt: skip
        return About(*(np.array([[getattr(x, name) for x in row] for row in out]) for name in ("value", "bound")))

    def stored(self, key: About, value: About) -> Iterator[Result]:
        """The new keys and values in the cache."""
        for name, part, new in zip(("keys", "values"), self.cache(), (key, value), strict=True):
            yield name, part[:, self.start : self.start + self.tokens].swapaxes(0, 1), cached(new, self.k.kv)


def heads_of_a_chunk(extras: bool, k: BareKernels) -> Iterator[Result]:
    """prefill_heads: bias, QK-norm, RoPE; queries back to where they were, keys and values to two pages."""
    c = Conversation(k, 126, 5, extras=extras)
    heads = c.qkv.shape[0] * c.qkv.shape[1]
    k.launch("prefill_heads", (-(-heads // 8),), 256, c.step, 0)
    queries, keys, values = c.heads()
    yield "queries", k.read(c.qkv_buffer, c.qkv)[:, :N_HEADS], queries
    yield from c.stored(keys, values)


def attention_of_a_chunk(k: BareKernels) -> Iterator[Result]:
    """prefill_attend: 21 tokens across a page's end, so that a tile has queries with one chunk of keys and with two."""
    c = Conversation(k, 117, 21, extras=False)
    k.launch("prefill_heads", (4,), 256, c.step, 0)
    q = k.read(c.qkv_buffer, c.qkv)[:, :N_HEADS]
    grid, shared = (-(-21 * GROUP // 16), N_KV_HEADS), 16 * ((k.head_dim + CHUNK) * 4 + 12) + 16
    k.launch("prefill_attend", grid, WARPS * 32, c.step, 0, shared=shared)
    yield "attention", k.read(c.attention, q), c.attended(exactly(q))


def attention_of_a_step(k: BareKernels) -> Iterator[Result]:
    """All of it in a step's second phase, for one token and for as many as there are step kernels for."""
    for tokens in (1, 3, k.step_sizes[-1]):
        size = next(size for size in k.step_sizes if size >= tokens)
        c = Conversation(k, 126, tokens, extras=tokens > 1)
        k.run_phase(size, c.step, 1, 32)
        q, key, value = c.heads()
        yield from c.stored(key, value)
        yield f"attention of {tokens}", k.read(c.attention, np.float32).reshape(q.value.shape), c.attended(q)
        yield "counters for the next step", k.read(c.finished, np.uint32), exactly(np.zeros(N_KV_HEADS))
