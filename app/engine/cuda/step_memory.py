"""What kernels find in the device's memory when a step begins: one structure, and the buffers that it points to."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from app.engine.cuda.device import Buffer, Device
from app.engine.cuda.greedy import Outbox
from app.engine.cuda.kv_cache import CudaKVCache, head_stride
from app.engine.cuda.layout import CHUNK, STEP
from app.engine.cuda.memory import buffer_bytes, partials_bytes
from app.engine.cuda.weights import CudaWeights, WeightPlan
from app.engine.rope import rope_tables
from app.engine.spec import ModelSpec

ROPE_ROWS = 512  # positions by which the rotation tables grow


class StepMemory:
    """A `layout.STEP` with its buffers. Raises MemoryError where there is no room for them."""

    def __init__(
        self, device: Device, spec: ModelSpec, plan: WeightPlan, weights: CudaWeights, cache: CudaKVCache,
        outbox: Outbox, *, kv: str, chunk: int, rows: int, rope_factors: NDArray[np.float32] | None,
    ) -> None:  # fmt: skip
        """`chunk` tokens of a prompt at a time, and `rows` of a step."""
        self._device, self._spec, self._rows, self._rope_factors = device, spec, rows, rope_factors
        self._step = step = np.zeros((), STEP)
        self._buffers: dict[str, Buffer] = {}
        self.positions = 0  # that there are rotation tables for
        step["n_layers"], step["d_model"], step["d_ff"] = spec.n_layers, spec.d_model, spec.d_ff
        step["n_heads"], step["n_kv_heads"] = spec.n_heads, spec.n_kv_heads
        step["norm_eps"], step["attention_scale"] = spec.norm_eps, np.float32(spec.head_dim**-0.5)
        step["head_stride"] = head_stride(spec, kv)
        step["layers"], step["output_norm"] = weights.layers, weights.output_norm
        step["embedding"], step["head"] = weights.embedding, weights.head
        step["pages"] = cache.table
        step["stop"], step["out"] = outbox.stop_address, outbox.address
        step["logit_stride"] = spec.vocab_size
        for name, n_bytes in buffer_bytes(spec, plan, chunk, rows).items():
            self._place(name, n_bytes)
        for counter in ("arrivals", "finished"):
            device.clear(self._buffers[counter])
        self._buffers["step"] = device.allocate(STEP.itemsize)

    @property
    def step(self) -> Buffer:
        """The structure, as it was last written."""
        return self._buffers["step"]

    @property
    def logits(self) -> Buffer:
        """Float32 [rows, vocab] after a step."""
        return self._buffers["logits"]

    def write(self, n_tokens: int, start: int, first_logit_row: int, n_logits: int, chunk_stride: int = 0) -> None:
        """What the next launch does (kernels/layout.cuh)."""
        step = self._step
        step["n_tokens"], step["start"], step["chunk_stride"] = n_tokens, start, chunk_stride
        step["first_logit_row"], step["n_logits"] = first_logit_row, n_logits
        self._device.write(self.step, step)

    def write_tokens(self, tokens: Sequence[int]) -> None:
        """What the rows of the next launch stand for. ValueError for what is no token."""
        ids = np.asarray(tokens, np.int32)
        if not 0 <= ids.min() <= ids.max() < self._spec.vocab_size:
            raise ValueError(f"tokens {ids.min()} to {ids.max()} of a vocabulary of {self._spec.vocab_size:,}")
        self._device.write(self._buffers["tokens"], ids)

    def write_ends(self, ends: Collection[int]) -> None:
        """Tokens that end a reply; known to kernels from the next `write` on."""
        ids = np.fromiter(ends, np.int32, len(ends))
        if ids.nbytes > self._buffers["ends"].n_bytes:
            self._place("ends", ids.nbytes)
        self._device.write(self._buffers["ends"], ids)
        self._step["n_ends"] = len(ids)

    def reserve_positions(self, length: int, most: int) -> None:
        """Rotation tables and room for partial attention results up to position `length`; they double as they grow, up
        to `most`."""
        if length <= self.positions:
            return
        self.positions = max(length, min(most, max(ROPE_ROWS, 2 * self.positions)))
        tables = rope_tables(self._spec, self._rope_factors, self.positions)
        for name, table in zip(("cos", "sin"), tables, strict=True):
            self._place(name, table.nbytes)
            self._device.write(self._buffers[name], table)
        chunks = -(-self.positions // CHUNK)
        self._step["max_chunks"] = chunks
        self._place("partials", partials_bytes(self._spec, chunks, self._rows))

    def close(self) -> None:
        """Free all of it."""
        self._buffers.clear()

    def _place(self, name: str, n_bytes: int) -> None:
        self._buffers[name] = self._device.allocate(n_bytes)
        self._step[name] = self._buffers[name].address
