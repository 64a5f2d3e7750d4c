"""The network on a GPU with one conversation's cache: tokens in, logits out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from app.engine.cuda.device import Buffer, Device, Program
from app.engine.cuda.greedy import LAUNCH_STEPS, GreedyRun, Outbox
from app.engine.cuda.kv_cache import CudaKVCache
from app.engine.cuda.layout import (
    PHASES,
    PREPARED_TOKENS,
    SEGMENT,
    STEP_SIZES,
    TILE_GROUPS,
    TILE_QUERIES,
    TILE_THREADS,
    TILE_TOKENS,
)
from app.engine.cuda.memory import F32
from app.engine.cuda.program import STATIC_SHARED, attention_bytes, constants, largest_chunk, shared_bytes
from app.engine.cuda.read_speed import ReadSpeed
from app.engine.cuda.step_memory import StepMemory
from app.engine.cuda.weights import CudaWeights, OnProgress, WeightPlan
from app.engine.decoder import Interrupted
from app.engine.gguf import GGUFFile
from app.engine.spec import ModelSpec
from app.engine.tensors import read_vector
from app.errors import DeviceMemoryError

Floats = NDArray[np.float32]


class CudaDecoder:
    """A `decoder.Decoder` over weights in device memory. One thread calls it; `interrupt` may come from any."""

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
        self._interrupt = threading.Event()
        self.chunk = largest_chunk(n_ctx)
        self._grid = device.facts.n_multiprocessors
        self.persistent = persistent and device.facts.cooperative and self._all_resident()
        self._host = device.host_array(self._largest * spec.vocab_size * F32).view(np.float32)
        self._recorded: dict[int, Callable[[], None]] = {}  # by size of step
        self._outbox = Outbox(device)
        self._memory = StepMemory(
            device, spec, plan, self.weights, self.cache, self._outbox, kv=kv, chunk=self.chunk, rows=self._largest,
            rope_factors=read_vector(gguf, "rope_freqs.weight") if spec.rope_factors else None,
        )  # fmt: skip

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
        self._outbox.stop()

    @property
    def runs_by_itself(self) -> bool:
        """Whether greedy steps can follow each other without the host: blocks have to wait for each other for that."""
        return self.persistent

    def run_greedily(self, token: int, draft: Sequence[int], most: int, ends: Collection[int]) -> GreedyRun:
        """As `decoder.SelfRunning` says. A step with guesses comes alone: the host has new ones for the next."""
        draft = draft[: self._largest - 1]
        start, count = self.cache.length, 1 + len(draft)
        if not 0 < most <= self.n_ctx - start or count > self.n_ctx - start:
            raise ValueError(f"{most} steps and {len(draft)} guesses at {start} of {self.n_ctx}")
        self._make_room(start + count)
        steps = 1 if draft else min(most, LAUNCH_STEPS, self._room() - start)
        self._outbox.clear()
        self._memory.write_ends(ends)
        self._memory.write_tokens([token, *draft])
        self._memory.write(count, start, 0, count)
        self._launch_step(self._size_for(count), -1, self._phases, steps)
        return GreedyRun(self._outbox, len(draft), self._advance)

    def _advance(self, n_tokens: int) -> None:
        self.cache.length += n_tokens

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
        self._make_room(start + count)
        self._memory.write_tokens(tokens)
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
        self._outbox.stop()
        self._outbox.wait()
        self._recorded.clear()
        self._memory.close()
        self.weights.close()
        self.cache.close()

    def _run_step(self, count: int, start: int, logits: Floats) -> None:
        """All phases for a few tokens."""
        self._memory.write(count, start, count - len(logits), len(logits))
        if self.persistent:
            self._launch_step(self._size_for(count), -1, self._phases)
        else:
            self._launch_phases(self._size_for(count))
        self._device.read(self._memory.logits, logits)

    @property
    def _phases(self) -> int:
        """Of a step, after the one in which tokens become embeddings."""
        return self.spec.n_layers * PHASES + 1

    def _launch_phases(self, size: int) -> None:
        """A launch for each phase: one by one the first time, and from then on as they were recorded."""

        def launches() -> None:
            for phase in range(-1, self._phases):
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
        self._memory.write(count, start, 0, 0, tokens)
        self._launch_step(self._largest, -1, 0)
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
            self._memory.write(count, start, count - len(logits) + first, len(rows))
            self._launch_step(self._size_for(len(rows)), self._phases - 1, self._phases)
            self._device.read(self._memory.logits, rows)

    def _groups(self, *parts: str) -> int:
        """Groups of rows of a layer's matrices together."""
        return sum(self._plan.matrices[f"blk.0.{part}"].n_groups for part in parts)

    def _size_for(self, tokens: int) -> int:
        return next(size for size in self._shared if size >= tokens)

    def _launch_step(self, size: int, first_phase: int, end_phase: int, n_steps: int = 0) -> None:
        """`n_steps`: how many greedy steps the launch makes at most; 0 makes one and leaves its logits."""
        self._launch(f"step_{size}", (self._grid,), self._warps * 32, first_phase, end_phase, n_steps,
                     shared=self._shared[size], cooperative=end_phase - first_phase > 1)  # fmt: skip

    def _launch(
        self, kernel: str, grid: tuple[int, ...], block: int, *numbers: int, shared: int = 0, cooperative: bool = False
    ) -> None:
        arguments: list[Buffer | np.generic] = [self._memory.step, *(np.int32(number) for number in numbers)]
        self.program.launch(kernel, grid, block, arguments, shared=shared, cooperative=cooperative)

    def _make_room(self, length: int) -> None:
        """Have room for `length` tokens of conversation. Raises DeviceMemoryError."""
        start = self.cache.length
        try:
            self.cache.reserve(length)
            self._memory.reserve_positions(length, self.n_ctx)
        except MemoryError as error:
            self.cache.truncate(start)
            free = self._device.free_bytes() / 1e9
            raise DeviceMemoryError(
                f"the GPU has no room for {length:,} tokens of conversation: {free:.1f} GB free, and pages of "
                f"{self.cache.page_bytes / 1e9:.2f} GB",
                "another program may have taken memory; --ctx or --kv q8_0 asks for less",
            ) from error

    def _room(self) -> int:
        """Tokens of conversation that there is room for now."""
        return min(self.n_ctx, self.cache.room, self._memory.positions)
