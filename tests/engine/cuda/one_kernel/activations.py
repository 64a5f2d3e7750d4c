"""Rows on their way to a product: norms, SiLU and int8 blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.engine.cuda.layout import MATRIX, PREPARED_TOKENS, TILE_TOKENS
from app.engine.formats import FORMATS, GGMLType
from tests.engine.cuda.one_kernel.bare_kernels import EPS, N_HEADS, BareKernels, Result, normal
from tests.engine.cuda.one_kernel.device_layouts import Activations, activations_in
from tests.engine.cuda.one_kernel.mathematics import LEAST, About, as_int8, exactly, rms_norm, silu_times


def same_int8(name: str, got: Activations, wanted: About) -> Iterator[Result]:
    """Scales, what scales and whole numbers give, and the sums that go with them; zeros past the last token."""
    n = len(wanted.value)
    largest = np.abs(wanted.value).reshape(n, -1, 32).max(axis=-1)
    bound = wanted.bound.reshape(n, -1, 32).max(axis=-1)
    yield f"{name}: scales", got.d[:n], About(largest / 127, bound / 127).rounded()
    yield f"{name}: numbers", got.values[:n], as_int8(wanted)
    q = got.q.astype(np.float64)
    halves = q.reshape(*q.shape[:2], 2, 16).sum(axis=-1)
    yield f"{name}: sums of halves", got.sums, exactly(halves)
    yield f"{name}: scaled sums", got.scaled_sums, exactly(halves.sum(axis=-1) * got.d).rounded()
    small = got.q[:n][largest < LEAST].astype(np.float64)
    yield f"{name}: blocks that count as zeros", small, exactly(np.zeros_like(small))
    yield f"{name}: tokens that are not there", got.values[n:], exactly(np.zeros_like(got.values[n:]))


def rows_of_a_chunk(kind: int, k: BareKernels) -> Iterator[Result]:
    """prefill_prepare: int8 rows and float rows of the residual, normalised, or of attention as it is."""
    tokens = 13
    n = N_HEADS * 128 if kind == 2 else 320
    x, norm = normal(12, tokens, n), normal(13, n)
    x[0, :64], x[1, 32:64] = 0, 1e-37
    formats = [GGMLType.Q8_0, GGMLType.F16] if kind != 2 else [GGMLType.Q8_0]
    names = {0: "qkv", 2: ["out"], 3: ["gate", "up"]}[kind]
    matrices = {name: np.zeros((), MATRIX) for name in names}
    for index, matrix in enumerate(matrices.values()):
        matrix["format"] = formats[index % len(formats)]
    n_bytes = n // 32 * TILE_TOKENS * 44
    memory = k.room(n_bytes + TILE_TOKENS * n * 4)
    source = k.put(x)
    step = k.step(
        {**matrices, "attn_norm": k.put(norm), "ffn_norm": k.put(norm)},
        n_tokens=tokens, chunk_stride=TILE_TOKENS, d_model=n, norm_eps=EPS, residual=source, attention=source,
        activations=memory,
    )  # fmt: skip
    k.launch("prefill_prepare", (TILE_TOKENS // PREPARED_TOKENS,), 256, step, 0, kind)
    wanted = exactly(x) if kind == 2 else rms_norm(exactly(x), norm, EPS)
    found = k.read(memory)
    yield from same_int8("rows", activations_in(found, n // 32, TILE_TOKENS), wanted)
    if len(formats) > 1:
        floats = found[n_bytes:].view(np.float32).reshape(TILE_TOKENS, n)
        yield "floats", floats[:tokens], wanted
        yield "floats of tokens that are not there", floats[tokens:], exactly(np.zeros_like(floats[tokens:]))


def hidden_rows_of_a_chunk(down: GGMLType, k: BareKernels) -> Iterator[Result]:
    """prefill_prepare: SiLU(gate) * up."""
    tokens, n = 9, 96
    gate_up = normal(14, tokens, 2 * n)
    gate_up[:, :n] *= 20
    gate_up[0, :4] = -100, 100, -86, 0
    matrix = np.zeros((), MATRIX)
    matrix["format"] = down
    floats = FORMATS[down].block == 1
    memory = k.room(TILE_TOKENS * n * 4 if floats else n // 32 * TILE_TOKENS * 44)
    step = k.step(
        {"down": matrix}, n_tokens=tokens, chunk_stride=TILE_TOKENS, d_model=n, d_ff=n, gate_up=k.put(gate_up),
        activations=memory,
    )  # fmt: skip
    k.launch("prefill_prepare", (TILE_TOKENS // PREPARED_TOKENS,), 256, step, 0, 4)
    wanted = silu_times(exactly(gate_up[:, :n]), exactly(gate_up[:, n:]))
    if floats:
        found = k.read(memory, np.float32).reshape(TILE_TOKENS, n)
        yield "hidden", found[:tokens], wanted
        yield "tokens that are not there", found[tokens:], exactly(np.zeros_like(found[tokens:]))
    else:
        yield from same_int8("hidden", activations_in(k.read(memory), n // 32, TILE_TOKENS), wanted)
