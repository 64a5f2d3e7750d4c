"""The step: every phase of every layer for a few tokens, in one call a thread. Threads meet at a barrier after each
phase.

    1     RMSNorm, quantise, Q K V projections; who finishes a head adds its bias, QK-norm and RoPE and stores it
    2     attention: (KV head x chunk) for few tokens, (KV head x tile of tokens) for a prompt chunk
    3     combine the chunks, quantise, output projection, + residual
    4     RMSNorm, quantise, gate and up projections, SiLU(gate) * up
    5     quantise, down projection, + residual
    last  norm, LM head of the rows that are needed

Work inside a phase is taken in pieces from shared counters, so a thread whose core is busy elsewhere holds up one piece
and not its share of the phase. Each thread begins with a share of its own, whose pieces lie one after the other: the
memory is read in long walks, and a phase can ask for the start of its walk before its activations are ready. What a
piece computes does not depend on who takes it, and no two pieces write one number.
"""

from __future__ import annotations

from typing import Any

from numba.core import types

from app.engine.cpu.isa import InstructionSet
from app.engine.cpu.kernels.activations import add_row, place_floats, quantise, rms_norm, rotate, silu_times
from app.engine.cpu.kernels.atomics import load_acquire, store_release
from app.engine.cpu.kernels.context import (
    activations,
    ask_for,
    ask_for_share,
    cache_address,
    first_piece,
    float_word,
    is_float,
    layer_table,
    pieces_of,
    scratch,
    take,
    word,
)  # fmt: skip
from app.engine.cpu.kernels.kv_page import store_key, store_value
from app.engine.cpu.kernels.meeting import barrier, call_back, meet
from app.engine.cpu.kernels.products import define_multiply
from app.engine.cpu.kernels.step_attention import attend_large, attend_small, combine_small
from app.engine.cpu.kernels.tiles import configure_tiles, release_tiles
from app.engine.cpu.kernels.vectors import jit
from app.engine.cpu.kernels.wide import load16, store16
from app.engine.cpu.layout import CHUNK, PHASES, SMALL_STEP, TILE_TOKENS, WIDE, Ctx, Layer, Matrix, Sync


@jit
def prepare(
    ctx: int, tid: int, arrived: int, active: int, rows: int, first: int, count: int, n: int, norm: int, ints: bool,
    floats: bool,
) -> int:  # fmt: skip
    """Norm (where `norm` is not 0) and lay out rows first..first+count of the float32 matrix `rows` [tokens, n].

    In a small step every thread does all rows for itself; in a large one the `active` threads share the rows and meet.
    Returns the arrivals at barriers.
    """
    x = activations(ctx, tid)
    row_buffer = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_ROW)
    small = word(ctx, Ctx.N_TOKENS) <= SMALL_STEP
    for t in range(count):
        if not small and t // TILE_TOKENS % active != tid:  # no two threads write one cache line
            continue
        row = rows + (first + t) * n * 4
        if norm != 0:
            rms_norm(row, norm, n, float_word(ctx, Ctx.NORM_EPS), row_buffer)
            row = row_buffer
        if ints:
            quantise(row, n, t, count, x[0], x[1], x[2], x[3])
        if floats:
            place_floats(row, n, t, count, x[4])
    return arrived if small else barrier(ctx, arrived, active)


@jit
def finish_head(ctx: int, layer: int, head: int, rows: int) -> None:
    """Bias, QK-norm and RoPE of one head of every token, float32 [tokens, head_dim] at rows; keep it or cache it."""
    table = layer_table(ctx, layer)
    n_heads, n_kv_heads, head_dim = word(ctx, Ctx.N_HEADS), word(ctx, Ctx.N_KV_HEADS), word(ctx, Ctx.HEAD_DIM)
    kind, half = word(ctx, Ctx.KV_KIND), head_dim // 2
    is_query, is_key = head < n_heads, n_heads <= head < n_heads + n_kv_heads
    index = head if is_query else (head - n_heads if is_key else head - n_heads - n_kv_heads)
    bias = word(table, Layer.Q_BIAS if is_query else (Layer.K_BIAS if is_key else Layer.V_BIAS))
    norm = word(table, Layer.Q_NORM if is_query else Layer.K_NORM)
    for t in range(word(ctx, Ctx.N_TOKENS)):
        row = rows + t * head_dim * 4
        position = word(ctx, Ctx.START) + t
        if bias != 0:
            add_row(row, bias + index * head_dim * 4, head_dim)
        if is_query or is_key:
            if norm != 0:
                rms_norm(row, norm, head_dim, float_word(ctx, Ctx.NORM_EPS), row)
            angles = position * half * 4
            rotate(row, word(ctx, Ctx.COS) + angles, word(ctx, Ctx.SIN) + angles, half)
        if is_query:
            target = word(ctx, Ctx.QUERIES) + (t * n_heads + index) * head_dim * 4
            for j in range(head_dim // WIDE):
                store16(target + j * WIDE * 4, load16(row + j * WIDE * 4))
        else:
            base = cache_address(ctx, layer, index, position // CHUNK)
            if is_key:
                store_key(kind, base, position % CHUNK, head_dim, row)
            else:
                store_value(kind, base, position % CHUNK, head_dim, row)


def define_step(isa: InstructionSet) -> Any:
    """`step(ctx, tid)` for one instruction set."""
    multiply = define_multiply(isa)
    lanes = isa.lanes

    @jit
    def multiply_groups(ctx: int, tid: int, matrix: int, first: int, count: int, n_tokens: int, out: int) -> None:
        """Groups first..first+count of a matrix for every token, into float32 [tokens, count * lanes] at out."""
        x = activations(ctx, tid)
        acc = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_ACC)
        group_bytes = word(matrix, Matrix.GROUP_BYTES)
        for g in range(count):
            multiply(
                word(matrix, Matrix.FORMAT), word(matrix, Matrix.DATA) + (first + g) * group_bytes,
                word(matrix, Matrix.N_BLOCKS), x, n_tokens, out + g * lanes * 4, count * lanes * 4, acc,
            )  # fmt: skip

    @jit
    def project_heads(ctx: int, tid: int, layer: int, phase: int, arrived: int, active: int) -> int:
        """Phase 1."""
        table = layer_table(ctx, layer)
        q, k, v = word(table, Layer.Q), word(table, Layer.K), word(table, Layer.V)
        floats = is_float(q) or is_float(k) or is_float(v)
        ints = not (is_float(q) and is_float(k) and is_float(v))
        n_tokens, n = word(ctx, Ctx.N_TOKENS), word(ctx, Ctx.D_MODEL)
        norm = word(table, Layer.ATTN_NORM)
        n_heads, n_kv_heads = word(ctx, Ctx.N_HEADS), word(ctx, Ctx.N_KV_HEADS)
        groups = word(ctx, Ctx.HEAD_DIM) // lanes
        n_pieces = n_heads + 2 * n_kv_heads
        first = first_piece(tid, word(ctx, Ctx.N_THREADS), n_pieces)
        if first < n_heads:
            ask_for(q, first * groups)
        elif first < n_heads + n_kv_heads:
            ask_for(k, (first - n_heads) * groups)
        else:
            ask_for(v, (first - n_heads - n_kv_heads) * groups)
        arrived = prepare(ctx, tid, arrived, active, word(ctx, Ctx.RESIDUAL), 0, n_tokens, n, norm, ints, floats)
        out = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_OUT)
        while True:
            head = take(ctx, phase, tid, n_pieces)
            if head >= n_pieces:
                return arrived
            if head < n_heads:
                multiply_groups(ctx, tid, q, head * groups, groups, n_tokens, out)
            elif head < n_heads + n_kv_heads:
                multiply_groups(ctx, tid, k, (head - n_heads) * groups, groups, n_tokens, out)
            else:
                multiply_groups(ctx, tid, v, (head - n_heads - n_kv_heads) * groups, groups, n_tokens, out)
            finish_head(ctx, layer, head, out)

    @jit
    def project_residual(ctx: int, tid: int, matrix: int, phase: int) -> None:
        """Phases 3 and 5: a projection back to d_model that is added to the residual stream."""
        n_tokens, n = word(ctx, Ctx.N_TOKENS), word(ctx, Ctx.D_MODEL)
        n_groups, piece, n_pieces = pieces_of(matrix)
        out = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_OUT)
        while True:
            first = take(ctx, phase, tid, n_pieces) * piece
            if first >= n_groups:
                return
            count = min(piece, n_groups - first)
            multiply_groups(ctx, tid, matrix, first, count, n_tokens, out)
            for t in range(n_tokens):
                target = word(ctx, Ctx.RESIDUAL) + (t * n + first * lanes) * 4
                add_row(target, out + t * count * lanes * 4, min(count * lanes, n - first * lanes))

    @jit
    def gate_and_up(ctx: int, tid: int, layer: int, phase: int, arrived: int, active: int) -> int:
        """Phase 4."""
        table = layer_table(ctx, layer)
        gate, up = word(table, Layer.GATE), word(table, Layer.UP)
        floats = is_float(gate) or is_float(up)
        ints = not (is_float(gate) and is_float(up))
        n_tokens, n, n_ff = word(ctx, Ctx.N_TOKENS), word(ctx, Ctx.D_MODEL), word(ctx, Ctx.D_FF)
        norm = word(table, Layer.FFN_NORM)
        n_groups, piece, n_pieces = pieces_of(gate)
        ask_for_share(ctx, tid, gate)
        ask_for_share(ctx, tid, up)
        arrived = prepare(ctx, tid, arrived, active, word(ctx, Ctx.RESIDUAL), 0, n_tokens, n, norm, ints, floats)
        out, out2 = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_OUT), scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_OUT2)
        while True:
            first = take(ctx, phase, tid, n_pieces) * piece
            if first >= n_groups:
                return arrived
            count = min(piece, n_groups - first)
            multiply_groups(ctx, tid, gate, first, count, n_tokens, out)
            multiply_groups(ctx, tid, up, first, count, n_tokens, out2)
            rows = min(count * lanes, n_ff - first * lanes)
            for t in range(n_tokens):
                row = t * count * lanes * 4
                silu_times(out + row, out2 + row, rows, word(ctx, Ctx.FFN) + (t * n_ff + first * lanes) * 4)

    @jit
    def lm_head(ctx: int, tid: int, phase: int, arrived: int, active: int) -> int:
        """The last phase: logits of the last N_LOGITS rows."""
        matrix, rows, n = word(ctx, Ctx.HEAD), word(ctx, Ctx.N_LOGITS), word(ctx, Ctx.D_MODEL)
        if rows == 0:
            return arrived
        first_row = word(ctx, Ctx.N_TOKENS) - rows
        floats = is_float(matrix)
        norm = word(ctx, Ctx.OUTPUT_NORM)
        ask_for_share(ctx, tid, matrix)
        arrived = prepare(
            ctx, tid, arrived, active, word(ctx, Ctx.RESIDUAL), first_row, rows, n, norm, not floats, floats
        )
        n_groups, piece, n_pieces = pieces_of(matrix)
        out = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_OUT)
        while True:
            first = take(ctx, phase, tid, n_pieces) * piece
            if first >= n_groups:
                return arrived
            count = min(piece, n_groups - first)
            multiply_groups(ctx, tid, matrix, first, count, rows, out)
            for t in range(rows):
                target = word(ctx, Ctx.LOGITS) + (t * word(ctx, Ctx.LOGIT_STRIDE) + first * lanes) * 4
                for i in range(0, count * lanes, WIDE):  # the last may write past the end: rows of logits have room
                    store16(target + i * 4, load16(out + (t * count * lanes + i) * 4))

    @jit
    def phases(ctx: int, tid: int) -> None:
        """The phases that this call is for."""
        n_tokens, sync = word(ctx, Ctx.N_TOKENS), word(ctx, Ctx.SYNC)
        small = n_tokens <= SMALL_STEP
        last = word(ctx, Ctx.N_LAYERS) * PHASES
        n_threads, end = word(ctx, Ctx.N_THREADS), word(ctx, Ctx.END_PHASE)
        phase, arrived, active = word(ctx, Ctx.FIRST_PHASE), types.int64(0), n_threads
        while phase < end:
            layer, kind = phase // PHASES, phase % PHASES
            if phase == last:
                arrived = lm_head(ctx, tid, phase, arrived, active)
            elif kind == 0:
                arrived = project_heads(ctx, tid, layer, phase, arrived, active)
            elif kind == 1:
                if small:
                    attend_small(ctx, tid, layer, phase)
                else:
                    attend_large(ctx, tid, layer, phase)
            elif kind == 2:
                matrix = word(layer_table(ctx, layer), Layer.OUT)
                ask_for_share(ctx, tid, matrix)
                rows = combine_small(ctx, tid) if small else word(ctx, Ctx.ATTENTION)
                width, floats = word(ctx, Ctx.N_HEADS) * word(ctx, Ctx.HEAD_DIM), is_float(matrix)
                arrived = prepare(ctx, tid, arrived, active, rows, 0, n_tokens, width, 0, not floats, floats)
                project_residual(ctx, tid, matrix, phase)
            elif kind == 3:
                arrived = gate_and_up(ctx, tid, layer, phase, arrived, active)
            else:
                matrix = word(layer_table(ctx, layer), Layer.DOWN)
                floats = is_float(matrix)
                rows = word(ctx, Ctx.FFN)
                ask_for_share(ctx, tid, matrix)
                arrived = prepare(
                    ctx, tid, arrived, active, rows, 0, n_tokens, word(ctx, Ctx.D_FF), 0, not floats, floats
                )
                project_residual(ctx, tid, matrix, phase)
                if tid == 0 and load_acquire(sync + Sync.CANCEL) != 0:
                    store_release(sync + Sync.STOPPED, 1)
            phase, arrived, active = meet(ctx, tid, phase, arrived, active)
        if tid == 0 and active < n_threads:
            call_back(ctx, end, arrived)

    if not isa.tiles:
        return phases

    @jit
    def step(ctx: int, tid: int) -> None:
        configure_tiles()
        phases(ctx, tid)
        release_tiles()

    return step
