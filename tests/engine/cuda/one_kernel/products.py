"""Packing and products: pack_rows, prefill_project, and the phases of a step that multiply."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from app.engine.cuda.layout import MATRIX, PHASES, TILE_TOKENS
from app.engine.formats import FORMATS, GGMLType
from tests.engine.cuda.one_kernel.activations import same_int8
from tests.engine.cuda.one_kernel.bare_kernels import EPS, N_HEADS, N_KV_HEADS, BareKernels, Result, normal
from tests.engine.cuda.one_kernel.device_layouts import (
    Activations,
    activation_memory,
    activations,
    activations_in,
    unpacked,
)
from tests.engine.cuda.one_kernel.mathematics import (
    About,
    Int8,
    Weights,
    add,
    exactly,
    product,
    quantised,
    rms_norm,
    silu_times,
)
from tests.gguf_files import quantise


@cache
def weights(kind: GGMLType, rows: int, columns: int) -> Weights:
    x = normal(rows + columns, rows, columns) + np.float32(0.1)
    return Weights(quantise(x, kind.name).view(np.uint8).reshape(-1), kind, columns)


def columns_of(kind: GGMLType) -> int:
    """A whole segment and a part of one where the format allows it, else two."""
    return 288 if 256 % FORMATS[kind].block or FORMATS[kind].block < 256 else 512


def given(tokens: int, columns: int, all_tokens: int) -> tuple[Activations, Int8]:
    """Random int8 rows, of which those past `tokens` are zeros, as they lie in memory and as mathematics has them."""
    rng = np.random.default_rng(columns + tokens)
    q = rng.integers(-127, 128, (all_tokens, columns // 32, 32)).astype(np.int8)
    d = rng.uniform(1e-3, 1e-2, q.shape[:2]).astype(np.float32)
    q[tokens:], d[tokens:] = 0, 0
    q[:, 0] = 0  # a block of zeros has scale 0
    d[:, 0] = 0
    real, scale = q[:tokens].astype(np.float64), d[:tokens].astype(np.float64)
    return activations(q, d), Int8(real, scale, 0.0, np.zeros(real.shape, bool))


def packing(kind: GGMLType, k: BareKernels) -> Iterator[Result]:
    given = weights(kind, 40, columns_of(kind))
    matrix, packed = k.pack(given)
    yield "weights", unpacked(k.read(packed), matrix), exactly(given.values)


def packing_of_pairs(k: BareKernels) -> Iterator[Result]:
    given = weights(GGMLType.Q8_0, 64, 64)
    matrix, packed = k.pack(given, paired_head=32)
    order = [head * 32 + i * 2 + half for head in range(2) for half in range(2) for i in range(16)]
    yield "weights", unpacked(k.read(packed), matrix), exactly(given.values[order])


def products_of_a_step(kind: GGMLType, k: BareKernels) -> Iterator[Result]:
    """The down projection, which finds its int8 rows in memory: one to eight tokens by every step kernel."""
    w = weights(kind, 72, columns_of(kind))
    matrix, rows, columns = k.matrix(w), *w.values.shape
    for tokens in range(1, 9):
        size = next(size for size in k.step_sizes if size >= tokens)
        x, x8 = given(tokens, columns, size)
        floats, residual = normal(tokens, tokens, columns), normal(tokens + 1, tokens, rows)
        out = k.put(residual)
        ffn = k.put(floats if w.is_float else activation_memory(x))
        step = k.step({"down": matrix}, n_tokens=tokens, d_model=rows, d_ff=columns, residual=out, ffn=ffn)
        k.run_phase(size, step, 4, columns, w.is_float)
        yield f"{tokens} tokens", k.read(out, residual), add(exactly(residual), product(exactly(floats), x8, w))


def products_of_a_chunk(kind: GGMLType, k: BareKernels) -> Iterator[Result]:
    """The same on tensor cores: 70 tokens, which are two tiles."""
    tokens, all_tokens = 70, 2 * TILE_TOKENS
    w = weights(kind, 72, columns_of(kind))
    rows, columns = w.values.shape
    x, x8 = given(tokens, columns, all_tokens)
    floats, residual = normal(1, all_tokens, columns), normal(2, tokens, rows)
    out = k.put(residual)
    step = k.step(
        {"down": w}, n_tokens=tokens, chunk_stride=all_tokens, d_model=rows, d_ff=columns, residual=out,
        activations=k.put(floats if w.is_float else activation_memory(x)),
    )  # fmt: skip
    k.run_tiles(step, 4, tokens, 3)
    yield "70 tokens", k.read(out, residual), add(exactly(residual), product(exactly(floats[:tokens]), x8, w))


QKV = {"q": GGMLType.Q4_K, "k": GGMLType.Q8_0, "v": GGMLType.F16}
QKV_ROWS = {"q": N_HEADS * 128, "k": N_KV_HEADS * 128, "v": N_KV_HEADS * 128}


def norm_and_qkv_of_a_step(k: BareKernels) -> Iterator[Result]:
    tokens, columns = 3, 512
    parts = {name: weights(kind, QKV_ROWS[name], columns) for name, kind in QKV.items()}
    x, norm = normal(3, tokens, columns), normal(4, columns)
    out = k.room(tokens * sum(QKV_ROWS.values()) * 4)
    step = k.step(
        {**parts, "attn_norm": k.put(norm)},
        n_tokens=tokens, d_model=columns, norm_eps=EPS, residual=k.put(x), qkv=out,
    )  # fmt: skip
    k.run_phase(4, step, 0, columns, floats=True)
    y = rms_norm(exactly(x), norm, EPS)
    wanted = [product(y, quantised(y), w) for w in parts.values()]
    yield "projections", k.read(out, np.float32).reshape(tokens, -1), side_by_side(wanted)


def side_by_side(parts: list[About]) -> About:
    return About(*(np.concatenate(each, axis=1) for each in zip(*((p.value, p.bound) for p in parts), strict=True)))


def products_of_all_phases_of_a_chunk(k: BareKernels) -> Iterator[Result]:
    """Several matrices side by side, with int8 rows and float rows at a time; rows that are stored, and added."""
    tokens, columns = 5, 256
    x, x8 = given(tokens, columns, TILE_TOKENS)
    floats = normal(5, TILE_TOKENS, columns)
    memory = k.put(np.concatenate((activation_memory(x), floats.reshape(-1).view(np.uint8))))
    parts = {name: weights(kind, QKV_ROWS[name], columns) for name, kind in QKV.items()}
    parts |= {"gate": weights(GGMLType.BF16, 96, columns), "up": weights(GGMLType.Q5_1, 96, columns)}
    qkv, gate_up = k.room(tokens * sum(QKV_ROWS.values()) * 4), k.room(tokens * 2 * 96 * 4)
    step = k.step(
        parts, n_tokens=tokens, chunk_stride=TILE_TOKENS, d_model=columns, d_ff=96, activations=memory, qkv=qkv,
        gate_up=gate_up,
    )  # fmt: skip
    k.run_tiles(step, 0, tokens, 40)
    k.run_tiles(step, 3, tokens, 6)
    results = {name: product(exactly(floats[:tokens]), x8, w) for name, w in parts.items()}
    for out, names in ((qkv, "qkv"), (gate_up, ("gate", "up"))):
        wanted = side_by_side([results[name] for name in names])
        yield "-".join(names), k.read(out, np.float32).reshape(tokens, -1), wanted


def output_projection_of_a_step(k: BareKernels) -> Iterator[Result]:
    """Rows without a norm; they are whole numbers of a power of two, so rounding them to int8 changes nothing."""
    tokens, columns = 7, N_HEADS * 128
    w = weights(GGMLType.Q6_K, 96, columns)
    x = np.random.default_rng(6).integers(-126, 127, (tokens, columns)).astype(np.float32)
    x[:, ::32] = 127
    x *= np.float32(2.0**-5)
    residual = normal(7, tokens, 96)
    out = k.put(residual)
    k.run_phase(8, k.step({"out": w}, n_tokens=tokens, d_model=96, attention=k.put(x), residual=out), 2, columns)
    q = x.reshape(tokens, -1, 32).astype(np.float64) * 32
    x8 = Int8(q, np.full(q.shape[:2], 2.0**-5), 0.0, np.zeros(q.shape, bool))
    yield "residual", k.read(out, residual), add(exactly(residual), product(exactly(x), x8, w))


def gate_and_up_of_a_step(down: GGMLType, k: BareKernels) -> Iterator[Result]:
    """Norm, two products, SiLU(gate) * up; as floats, or as int8 rows for eight tokens, of which two are not there."""
    tokens, columns, width = 6, 512, 96
    gate, up = weights(GGMLType.Q5_K, width, columns), weights(GGMLType.Q4_1, width, columns)
    x, norm = normal(8, tokens, columns), normal(9, columns) / 20
    matrix = np.zeros((), MATRIX)
    matrix["format"] = down
    floats = FORMATS[down].block == 1
    ffn = k.room(tokens * width * 4 if floats else width // 32 * 8 * 44)
    step = k.step(
        {"gate": gate, "up": up, "down": matrix, "ffn_norm": k.put(norm)},
        n_tokens=tokens, d_model=columns, d_ff=width, norm_eps=EPS, residual=k.put(x), ffn=ffn,
    )  # fmt: skip
    k.run_phase(8, step, 3, columns)
    y = rms_norm(exactly(x), norm, EPS)
    wanted = silu_times(*(product(y, quantised(y), w) for w in (gate, up)))
    if floats:
        yield "hidden", k.read(ffn, np.float32).reshape(tokens, -1), wanted
    else:
        yield from same_int8("hidden", activations_in(k.read(ffn), width // 32, 8), wanted)


def head_of_a_step(k: BareKernels) -> Iterator[Result]:
    tokens, columns, vocabulary = 5, 512, 40
    w = weights(GGMLType.Q4_0, vocabulary, columns)
    x, norm = normal(10, tokens, columns), normal(11, columns)
    logits = k.room(3 * vocabulary * 4)
    step = k.step(
        {}, n_tokens=tokens, n_logits=3, first_logit_row=1, d_model=columns, norm_eps=EPS, residual=k.put(x),
        output_norm=k.put(norm), head=w, logits=logits, logit_stride=vocabulary,
    )  # fmt: skip
    k.run_phase(4, step, PHASES, columns)
    y = rms_norm(exactly(x[1:4]), norm, EPS)
    yield "logits", k.read(logits, np.float32).reshape(3, -1), product(y, quantised(y), w)
