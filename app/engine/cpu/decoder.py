"""The network on the CPU with one conversation's cache: tokens in, logits out."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.engine.cpu.buffers import aligned, float_bits, round_up
from app.engine.cpu.kv_cache import KVCache
from app.engine.cpu.layout import (
    BLOCK,
    CACHE_LINE,
    CHUNK,
    MAX_STEP,
    PANEL_BYTES,
    PHASES,
    SMALL_STEP,
    TILE,
    WALK_QUERIES,
    Ctx,
    Sync,
)
from app.engine.cpu.library import Kernels
from app.engine.cpu.pool import Pool
from app.engine.cpu.trace import Tracer
from app.engine.cpu.weights import PackedWeights
from app.engine.decoder import Interrupted
from app.engine.gguf import GGUFFile
from app.engine.rope import rope_tables
from app.engine.spec import ModelSpec
from app.engine.tensors import read_rows, read_vector

ROPE_ROWS = 512  # positions by which the rotation tables grow
F32 = 4  # bytes

Floats = NDArray[np.float32]


class CpuDecoder:
    """A `generate.Decoder` over packed weights. One thread calls it at a time; `interrupt` may come from any."""

    def __init__(
        self, gguf: GGUFFile, spec: ModelSpec, weights: PackedWeights, kernels: Kernels, *, threads: int, n_ctx: int,
        kv: str, tracer: Tracer | None = None,
    ) -> None:  # fmt: skip
        self.spec, self.n_ctx, self.chunk = spec, n_ctx, MAX_STEP
        self.cache = KVCache(spec, kv, n_ctx)
        self._gguf, self._weights = gguf, weights
        self._tracer = tracer
        self._interrupt = threading.Event()
        self._rope_factors = read_vector(gguf, "rope_freqs.weight") if spec.rope_factors else None
        self.pool = Pool(kernels, threads)
        self._context = np.zeros(len(Ctx), np.int64)
        self._buffers: dict[Ctx, NDArray[np.generic]] = {}
        counters = (spec.n_layers * PHASES + 1) * threads  # one a phase and thread
        self._sync = aligned((Sync.COUNTERS + counters * CACHE_LINE) // 8, np.int64)
        self._rows = self._positions = 0
        self._buffers[Ctx.LOGITS] = aligned(0, np.uint8)
        self._fill_context(kernels.isa.lanes)
        self._reserve_rows(SMALL_STEP)

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self.cache.length

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        self.cache.truncate(length)

    def interrupt(self) -> None:
        """Make the running forward call, or the next one, raise Interrupted within one layer."""
        self._interrupt.set()
        self._sync[Sync.CANCEL // 8] = 1

    def forward(self, tokens: Sequence[int], n_logits: int) -> Floats:
        """Append at most `chunk` tokens; float32 [n_logits, vocab] after each of the last `n_logits` of them.

        The result is overwritten by the next call. Raises Interrupted, with the cache at its old length.
        """
        start, count = self.cache.length, len(tokens)
        if not 0 < count <= self.chunk or not 0 <= n_logits <= count or start + count > self.n_ctx:
            raise ValueError(f"{count} tokens at {start} of {self.n_ctx}, logits of {n_logits}")
        self.cache.reserve(start + count)
        self._reserve_rows(MAX_STEP if count > SMALL_STEP else SMALL_STEP)
        self._reserve_logits(n_logits)
        self._reserve_positions(start + count)
        embeddings = read_rows(self._gguf, "token_embd.weight", np.asarray(tokens, np.int64))
        self.buffer(Ctx.RESIDUAL, count, self.spec.d_model)[:] = embeddings
        words = self._context
        words[Ctx.N_TOKENS], words[Ctx.START], words[Ctx.N_LOGITS] = count, start, n_logits
        phases = self.spec.n_layers * PHASES + 1
        if self._tracer is None:
            self._run(0, phases)
        else:
            for phase in range(phases):
                self._run(phase, phase + 1)
                self._tracer.record(self, phase, start, count, n_logits)
        self.cache.length = start + count
        return self.logits(n_logits)

    def logits(self, n_rows: int) -> Floats:
        """The first `n_rows` rows of the last step's logits, [n_rows, vocab]."""
        stride = int(self._context[Ctx.LOGIT_STRIDE])
        return self.buffer(Ctx.LOGITS, n_rows, stride)[:, : self.spec.vocab_size]

    def buffer(self, word: Ctx, rows: int, columns: int) -> Floats:
        """The first rows of a float32 buffer of the step context, [rows, columns]."""
        floats: Floats = self._buffers[word].view(np.float32)[: rows * columns].reshape(rows, columns)
        return floats

    def scratch_floats(self, word: Ctx, rows: int, columns: int) -> Floats:
        """The same for a part of thread 0's scratch."""
        start = int(self._context[word])
        raw = self._buffers[Ctx.SCRATCH][start : start + rows * columns * F32]
        floats: Floats = raw.view(np.float32).reshape(rows, columns)
        return floats

    def close(self) -> None:
        """End the threads. The weights are freed with the object."""
        self.pool.close()

    def _run(self, first_phase: int, end_phase: int) -> None:
        self._context[Ctx.FIRST_PHASE], self._context[Ctx.END_PHASE] = first_phase, end_phase
        self._sync[:] = 0
        if self._interrupt.is_set():
            self._interrupt.clear()
            raise Interrupted
        self.pool.step(self._context.ctypes.data)
        if self._sync[Sync.STOPPED // 8]:
            self._interrupt.clear()
            raise Interrupted

    def _fill_context(self, lanes: int) -> None:
        """The words that never change, and each thread's scratch."""
        spec, words = self.spec, self._context
        group = spec.n_heads // spec.n_kv_heads
        record = (spec.head_dim + 2) * F32
        longest = max(spec.d_model, spec.d_ff, spec.n_heads * spec.head_dim)
        queries = max(SMALL_STEP * group, WALK_QUERIES)
        piece_rows = max(self._weights.most_piece_groups * lanes, spec.head_dim)
        words[Ctx.N_THREADS], words[Ctx.N_LAYERS] = self.pool.n_threads, spec.n_layers
        words[Ctx.D_MODEL], words[Ctx.D_FF] = spec.d_model, spec.d_ff
        words[Ctx.N_HEADS], words[Ctx.N_KV_HEADS], words[Ctx.HEAD_DIM] = spec.n_heads, spec.n_kv_heads, spec.head_dim
        words[Ctx.KV_KIND] = self.cache.kind
        words[Ctx.NORM_EPS] = float_bits(spec.norm_eps)
        words[Ctx.ATTENTION_SCALE] = float_bits(spec.head_dim**-0.5)
        words[Ctx.LAYERS], words[Ctx.HEAD] = self._weights.layers, self._weights.head
        words[Ctx.OUTPUT_NORM] = self._weights.output_norm
        words[Ctx.PAGES], words[Ctx.PAGE_STRIDE] = self.cache.table.ctypes.data, self.cache.head_stride
        words[Ctx.SYNC], words[Ctx.ASIDE] = self._sync.ctypes.data, self.pool.aside
        # what a token takes of an activation buffer: int8, scales, sums, scaled sums, floats
        blocks = longest // BLOCK
        words[Ctx.ACT_SCALES] = longest
        words[Ctx.ACT_SUMS] = words[Ctx.ACT_SCALES] + blocks * F32
        words[Ctx.ACT_SCALED_SUMS] = words[Ctx.ACT_SUMS] + blocks * 2 * F32
        words[Ctx.ACT_FLOATS] = words[Ctx.ACT_SCALED_SUMS] + blocks * F32
        self._token_activations = int(words[Ctx.ACT_FLOATS]) + longest * F32
        # a thread's scratch: the activations of a small step, then the rest
        end = round_up(self._token_activations * SMALL_STEP)
        for word, size in (
            (Ctx.SCRATCH_ROW, longest * F32),
            (Ctx.SCRATCH_ACC, max(MAX_STEP * lanes * F32, PANEL_BYTES)),
            (Ctx.SCRATCH_OUT, MAX_STEP * piece_rows * F32),
            (Ctx.SCRATCH_OUT2, MAX_STEP * piece_rows * F32),
            (Ctx.SCRATCH_TILE, 2 * spec.head_dim * TILE * F32),
            (Ctx.SCRATCH_SCORES, queries * CHUNK * F32),
            (Ctx.SCRATCH_PART, queries * record),
            (Ctx.SCRATCH_STATE, queries * record),
            (Ctx.SCRATCH_ATTENTION, SMALL_STEP * spec.n_heads * spec.head_dim * F32),
        ):
            words[word] = end
            end += round_up(size)
        words[Ctx.SCRATCH_STRIDE] = end
        self._allocate(Ctx.SCRATCH, end * self.pool.n_threads)

    def _reserve_rows(self, rows: int) -> None:
        """Buffers for steps of up to `rows` tokens."""
        if rows <= self._rows:
            return
        spec, self._rows = self.spec, rows
        self._allocate(Ctx.RESIDUAL, rows * spec.d_model * F32)
        self._allocate(Ctx.QUERIES, rows * spec.n_heads * spec.head_dim * F32)
        self._allocate(Ctx.ATTENTION, rows * spec.n_heads * spec.head_dim * F32)
        self._allocate(Ctx.FFN, rows * spec.d_ff * F32)
        self._allocate(Ctx.SHARED, rows * self._token_activations)

    def _reserve_logits(self, rows: int) -> None:
        stride = round_up(self.spec.vocab_size)
        self._context[Ctx.LOGIT_STRIDE] = stride
        if rows * stride * F32 > self._buffers[Ctx.LOGITS].nbytes:
            self._allocate(Ctx.LOGITS, rows * stride * F32)

    def _reserve_positions(self, length: int) -> None:
        """Rotation tables and room for partial attention results up to position `length`, doubling as they grow."""
        spec = self.spec
        if length > self._positions:
            self._positions = max(length, min(self.n_ctx, max(ROPE_ROWS, 2 * self._positions)))
            cos, sin = rope_tables(spec, self._rope_factors, self._positions)
            self._place(Ctx.COS, cos.reshape(-1))
            self._place(Ctx.SIN, sin.reshape(-1))
            chunks = -(-self._positions // CHUNK)
            self._context[Ctx.MAX_CHUNKS] = chunks
            self._allocate(Ctx.PARTIALS, SMALL_STEP * spec.n_heads * chunks * (spec.head_dim + 2) * F32)

    def _allocate(self, word: Ctx, n_bytes: int) -> None:
        """Zeroed memory for one buffer; pages are taken from the system as they are touched."""
        self._place(word, aligned(n_bytes, np.uint8))

    def _place(self, word: Ctx, array: NDArray[np.generic]) -> None:
        self._buffers[word] = array
        self._context[word] = array.ctypes.data
