"""The network on a GPU with one conversation's cache: tokens in, logits out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from app.engine.cuda.device import Buffer, Device, Program
from app.engine.cuda.kv_cache import CudaKVCache, head_stride
from app.engine.cuda.layout import (
    CHUNK,
    KV_KINDS,
    LANES,
    LAYER,
    MATRIX,
    PHASES,
    PREFILL_TOKENS,
    PREPARED_TOKENS,
    SEGMENT,
    STEP,
    STEP_SIZES,
    TILE_GROUPS,
    TILE_QUERIES,
    TILE_THREADS,
    TILE_TOKENS,
)
from app.engine.cuda.memory import activation_bytes, buffer_bytes, partials_bytes
from app.engine.cuda.read_speed import ReadSpeed
from app.engine.cuda.weights import CudaWeights, OnProgress, WeightPlan
from app.engine.decoder import Interrupted
from app.engine.gguf import GGUFFile
from app.engine.rope import rope_tables
from app.engine.spec import ModelSpec
from app.engine.tensors import read_rows, read_vector
from app.errors import DeviceMemoryError

ROPE_ROWS = 512  # positions by which the rotation tables grow
F32 = 4  # bytes
STATIC_SHARED = 4096  # bytes of a block's shared memory that the kernels declare themselves, at most

Floats = NDArray[np.float32]


def shared_bytes(spec: ModelSpec, plan: WeightPlan, warps: int, tokens: int) -> int:
    """Dynamic shared memory of a step of so many tokens: partial sums and activations, or a tile of attention."""
    partial = 2 * warps * tokens * LANES * F32
    return max(partial + activation_bytes(plan, tokens), attention_bytes(spec))


def attention_bytes(spec: ModelSpec) -> int:
    """Dynamic shared memory of a tile of queries (AttentionTile in kernels/attention.cuh)."""
    return TILE_QUERIES * ((spec.head_dim + CHUNK) * F32 + 3 * 4) + 16


def constants(spec: ModelSpec, plan: WeightPlan, kv: str, warps: int, sizes: Iterable[int]) -> dict[str, int]:
    """What kernels are compiled for (kernels/layout.cuh). `sizes`: tokens of a step."""
    return {
        "HEAD_DIM": spec.head_dim,
        "KV_KIND": KV_KINDS[kv],
        "FORMATS": sum(1 << kind for kind in plan.formats),
        "STEPS": sum(sizes),
        "WARPS": warps,
        "MATRIX_BYTES": MATRIX.itemsize,
        "LAYER_BYTES": LAYER.itemsize,
        "STEP_BYTES": STEP.itemsize,
    }


def largest_chunk(n_ctx: int) -> int:
    """Tokens of the largest chunk of a prompt."""
    return min(PREFILL_TOKENS, -(-n_ctx // TILE_TOKENS) * TILE_TOKENS)


class CudaDecoder:
    """A `generate.Decoder` over weights in device memory. One thread calls it; `interrupt` may come from any."""

    def __init__(
        self, gguf: GGUFFile, spec: ModelSpec, plan: WeightPlan, device: Device, *, n_ctx: int, kv: str,
        warps: int = 16, persistent: bool = True, step_sizes: Iterable[int] = STEP_SIZES,
        on_progress: OnProgress = lambda done, total: None, weights: type[CudaWeights] = CudaWeights,
    ) -> None:  # fmt: skip
        """Compile the kernels, bring the weights up, and make room for a step.

        warps        of a block of threads
        persistent   one cooperative launch a step, where the device can do that, in place of one a phase
        step_sizes   tokens of a step, of which those are compiled for which a block has enough shared memory
        weights      what brings them up: from the file, unless a benchmark makes them
        Raises MemoryError.
        """
        self.spec, self.n_ctx = spec, n_ctx
        self._gguf, self._plan, self._device, self._warps = gguf, plan, device, warps
        room = device.facts.shared_bytes - STATIC_SHARED
        self._shared = {t: n for t in step_sizes if (n := shared_bytes(spec, plan, warps, t)) <= room}
        self._largest = max(self._shared, default=0)
        if not self._largest:
            raise MemoryError(f"{device.facts.name} has too little shared memory for rows of {plan.longest_row:,}")
        self.program: Program = device.compile(constants(spec, plan, kv, warps, self._shared))
        self.weights = weights(gguf, spec, plan, device, self.program, on_progress)
        self.cache = CudaKVCache(spec, kv, n_ctx, device)
        self._rope_factors = read_vector(gguf, "rope_freqs.weight") if spec.rope_factors else None
        self._interrupt = threading.Event()
        self.chunk = largest_chunk(n_ctx)
        self._grid = device.facts.n_multiprocessors
        self.persistent = persistent and device.facts.cooperative and self._all_resident()
        self._host = device.host_array(self._largest * spec.vocab_size * F32).view(np.float32)
        self._recorded: dict[int, Callable[[], None]] = {}  # by size of step
        self._step = np.zeros((), STEP)
        self._buffers: dict[str, Buffer] = {}
        self._positions = 0
        self._barriers = 0  # arrivals at the grid barrier so far
        self._fill_step(kv)

    @property
    def step_sizes(self) -> tuple[int, ...]:
        """Tokens for which there is a step kernel."""
        return tuple(self._shared)

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self.cache.length

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        self.cache.truncate(length)

    def interrupt(self) -> None:
        """Make the running forward call, or the next one, raise Interrupted before its next step."""
        self._interrupt.set()

    def forward(self, tokens: Sequence[int], n_logits: int) -> Floats:
        """Append at most `chunk` tokens; float32 [n_logits, vocab] after each of the last `n_logits` of them.

        The result is overwritten by the next call. Raises Interrupted, with the cache at its old length, and
        DeviceMemoryError where the cache cannot grow.
        """
        start, count = self.cache.length, len(tokens)
        if not 0 < count <= self.chunk or not 0 <= n_logits <= count or start + count > self.n_ctx:
            raise ValueError(f"{count} tokens at {start} of {self.n_ctx}, logits of {n_logits}")
        if self._interrupt.is_set():
            self._interrupt.clear()
            raise Interrupted
        try:
            self.cache.reserve(start + count)
            self._reserve_positions(start + count)
        except MemoryError as error:
            self.cache.truncate(start)
            free = self._device.free_bytes() / 1e9
            raise DeviceMemoryError(
                f"the GPU has no room for {start + count:,} tokens of conversation: {free:.1f} GB free, and pages of "
                f"{self.cache.page_bytes / 1e9:.2f} GB",
                "another program may have taken memory; --ctx or --kv q8_0 asks for less",
            ) from error
        embeddings = read_rows(self._gguf, "token_embd.weight", np.asarray(tokens, np.int64))
        self._device.write(self._buffers["residual"], embeddings)
        vocab = self.spec.vocab_size
        fits = n_logits <= self._largest
        logits = self._host[: n_logits * vocab] if fits else np.empty(n_logits * vocab, np.float32)
        logits = logits.reshape(n_logits, vocab)
        if count <= self._largest:
            self._run_step(count, start, logits)
        else:
            self._run_chunk(count, start, logits)
        self.cache.length = start + count
        return logits

    def read_speed(self) -> ReadSpeed:
        """How fast the device reads the weights where nothing is computed with them."""
        return ReadSpeed(self._device, self.weights.block)

    def close(self) -> None:
        """Free the device's memory, all but what the program itself takes; the decoder is of no use afterwards."""
        self._recorded.clear()
        self._buffers.clear()
        self.weights.close()
        self.cache.close()

    def _run_step(self, count: int, start: int, logits: Floats) -> None:
        """All phases for a few tokens."""
        self._write_step(count, start, count - len(logits), len(logits))
        size, phases = self._size_for(count), self.spec.n_layers * PHASES + 1
        if self.persistent:
            self._launch_step(size, 0, phases)
            self._barriers += (phases - 1) * self._grid
        else:
            self._launch_phases(size, phases)
        self._device.read(self._buffers["logits"], logits)

    def _launch_phases(self, size: int, phases: int) -> None:
        """A launch for each phase: one by one the first time, and from then on as they were recorded."""

        def launches() -> None:
            for phase in range(phases):
                self._launch_step(size, phase, phase + 1)

        if size in self._recorded:
            self._recorded[size]()
        else:
            launches()
            self._recorded[size] = self._device.record(launches)

    def _all_resident(self) -> bool:
        """Whether one block a multiprocessor can run at a time, as a barrier of all of them needs."""
        return all(
            self.program.resident_blocks(f"step_{size}", self._warps * 32, shared) > 0
            for size, shared in self._shared.items()
        )

    def _run_chunk(self, count: int, start: int, logits: Floats) -> None:
        """A chunk of a prompt, part by part; the LM head for a few rows at a time."""
        spec = self.spec
        groups = [self._groups("attn_q", "attn_k", "attn_v"), 0, self._groups("attn_output"),
                  self._groups("ffn_gate", "ffn_up"), self._groups("ffn_down")]  # fmt: skip
        tokens = -(-count // TILE_TOKENS) * TILE_TOKENS
        self._step["chunk_stride"] = tokens
        self._write_step(count, start, 0, 0)
        heads = count * (spec.n_heads + 2 * spec.n_kv_heads)
        queries = -(-count * (spec.n_heads // spec.n_kv_heads) // TILE_QUERIES)
        for layer in range(spec.n_layers):
            for kind in range(PHASES):
                if kind == 1:
                    self._launch("prefill_heads", (-(-heads // 8),), 256, layer)
                    self._launch("prefill_attend", (queries, spec.n_kv_heads), self._warps * 32, layer,
                                 shared=attention_bytes(spec))  # fmt: skip
                    continue
                self._launch("prefill_prepare", (tokens // PREPARED_TOKENS,), 256, layer, kind)
                grid = (tokens // TILE_TOKENS, -(-groups[kind] // TILE_GROUPS))
                self._launch("prefill_project", grid, TILE_THREADS, layer, kind, shared=2 * SEGMENT * TILE_TOKENS * 44)
        for first in range(0, len(logits), self._largest):
            rows = logits[first : first + self._largest]
            self._write_step(count, start, count - len(logits) + first, len(rows))
            self._launch_step(self._size_for(len(rows)), spec.n_layers * PHASES, spec.n_layers * PHASES + 1)
            self._device.read(self._buffers["logits"], rows)

    def _groups(self, *parts: str) -> int:
        """Groups of rows of a layer's matrices together."""
        return sum(self._plan.matrices[f"blk.0.{part}"].n_groups for part in parts)

    def _size_for(self, tokens: int) -> int:
        return next(size for size in self._shared if size >= tokens)

    def _write_step(self, n_tokens: int, start: int, first_logit_row: int, n_logits: int) -> None:
        step = self._step
        step["n_tokens"], step["start"] = n_tokens, start
        step["first_logit_row"], step["n_logits"] = first_logit_row, n_logits
        step["barrier_base"] = self._barriers % (1 << 32)
        self._device.write(self._buffers["step"], step)

    def _launch_step(self, size: int, first_phase: int, end_phase: int) -> None:
        self._launch(f"step_{size}", (self._grid,), self._warps * 32, first_phase, end_phase,
                     shared=self._shared[size], cooperative=end_phase - first_phase > 1)  # fmt: skip

    def _launch(
        self, kernel: str, grid: tuple[int, ...], block: int, *numbers: int, shared: int = 0, cooperative: bool = False
    ) -> None:
        arguments: list[Buffer | np.generic] = [self._buffers["step"], *(np.int32(number) for number in numbers)]
        self.program.launch(kernel, grid, block, arguments, shared=shared, cooperative=cooperative)

    def _fill_step(self, kv: str) -> None:
        """What never changes, and the buffers of a step."""
        spec, step = self.spec, self._step
        step["n_layers"], step["d_model"], step["d_ff"] = spec.n_layers, spec.d_model, spec.d_ff
        step["n_heads"], step["n_kv_heads"] = spec.n_heads, spec.n_kv_heads
        step["norm_eps"], step["attention_scale"] = spec.norm_eps, np.float32(spec.head_dim**-0.5)
        step["head_stride"] = head_stride(spec, kv)
        step["layers"], step["output_norm"] = self.weights.layers, self.weights.output_norm
        step["head"], step["pages"] = self.weights.head, self.cache.table
        step["logit_stride"] = spec.vocab_size
        for name, n_bytes in buffer_bytes(spec, self._plan, self.chunk, self._largest).items():
            self._place(name, n_bytes)
        for counter in ("arrivals", "finished"):
            self._device.clear(self._buffers[counter])
        self._buffers["step"] = self._device.allocate(STEP.itemsize)

    def _reserve_positions(self, length: int) -> None:
        """Rotation tables and room for partial attention results up to position `length`, doubling as they grow."""
        spec = self.spec
        if length <= self._positions:
            return
        self._positions = max(length, min(self.n_ctx, max(ROPE_ROWS, 2 * self._positions)))
        for name, table in zip(("cos", "sin"), rope_tables(spec, self._rope_factors, self._positions), strict=True):
            self._place(name, table.nbytes)
            self._device.write(self._buffers[name], table)
        chunks = -(-self._positions // CHUNK)
        self._step["max_chunks"] = chunks
        self._place("partials", partials_bytes(spec, chunks, self._largest))

    def _place(self, name: str, n_bytes: int) -> None:
        self._buffers[name] = self._device.allocate(n_bytes)
        self._step[name] = self._buffers[name].address
