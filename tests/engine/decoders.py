"""Decoders for tests: any instruction set, thread count and cache over one file, closed at the end of the test."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.engine.cpu.decoder import CpuDecoder
from app.engine.cpu.isa import InstructionSet, choose
from app.engine.cpu.library import Kernels, load_kernels
from app.engine.cpu.trace import Tracer
from app.engine.cpu.weights import PackedWeights
from app.engine.formats import GGMLType
from app.engine.gguf import read_gguf
from app.engine.reference import ReferenceDecoder
from app.engine.spec import ModelSpec

Floats = NDArray[np.float32]


@contextmanager
def cpu_decoder(
    path: Path, *, threads: int = 1, kv: str = "f16", isa: InstructionSet | None = None, kernels: Kernels | None = None,
    n_ctx: int | None = None, tracer: Tracer | None = None, head_kind: GGMLType | None = None,
) -> Iterator[CpuDecoder]:  # fmt: skip
    """The engine's decoder over `path`."""
    kernels = kernels or load_kernels(isa or choose(), print)
    with read_gguf(path) as gguf:
        spec = ModelSpec.from_gguf(gguf)
        weights = PackedWeights(gguf, spec, kernels, threads, head_kind=head_kind)
        decoder = CpuDecoder(
            gguf, spec, weights, kernels, threads=threads, n_ctx=n_ctx or spec.context_length, kv=kv, tracer=tracer
        )
        try:
            yield decoder
        finally:
            decoder.close()


def all_logits(decoder: CpuDecoder | ReferenceDecoder, tokens: Sequence[int], chunk: int) -> Floats:
    """The logits after every token, [tokens, vocab], read `chunk` tokens at a time from where the cache stands."""
    rows = []
    for first in range(0, len(tokens), chunk):
        part = tokens[first : first + chunk]
        rows.append(decoder.forward(part, len(part)).copy())
    return np.concatenate(rows)


def reference_logits(path: Path, tokens: Sequence[int], kv: str = "f16") -> Floats:
    """The logits after every token, as NumPy computes them."""
    with read_gguf(path) as gguf:
        return all_logits(ReferenceDecoder(gguf, kv=kv), tokens, len(tokens))


def digest(logits: Floats) -> str:
    """A hash of every bit."""
    return hashlib.sha256(np.ascontiguousarray(logits).tobytes()).hexdigest()
