"""The step: every phase of every layer for a few tokens, in one call a thread. Threads meet at a barrier after each
phase.

    1 RMSNorm, quantise, Q K V projections; the thread that finishes a head adds its bias, QK-norm and RoPE and stores
    it 2 attention: (KV head x chunk) for few tokens, (KV head x tile of tokens) for a prompt chunk 3 combine the
    chunks, quantise, output projection, + residual 4 RMSNorm, quantise, gate and up projections, SiLU(gate) * up 5
    quantise, down projection, + residual last: norm, LM head of the rows that are needed

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
from app.engine.cpu.kernels.attention import attend_chunk, copy_part, finish, merge
from app.engine.cpu.kernels.kv_page import store_key, store_value
from app.engine.cpu.kernels.products import define_multiply
from app.engine.cpu.kernels.tiles import configure_tiles, release_tiles
from app.engine.cpu.kernels.vectors import (
    fetch_add,
    jit,
    load_acquire,
    load_address,
    load_f32,
    load_i64,
    prefetch,
    store_f32,
    store_release,
)
from app.engine.cpu.kernels.waiting import wait_for, wake
from app.engine.cpu.layout import (
    CACHE_LINE,
    CHUNK,
    PHASES,
    SMALL_STEP,
    TILE_TOKENS,
    WALK_QUERIES,
    WORD,
    Ctx,
    Layer,
    Matrix,
    Sync,
)
from app.engine.formats import GGMLType

WALK_START = 4096  # bytes of a walk that are asked for ahead of it: as far as the products ask ahead of themselves

FLOATS = (int(GGMLType.F32), int(GGMLType.F16), int(GGMLType.BF16))


@jit
def word(table: int, index: int) -> int:
    """Entry `index` of a table of int64 words."""
    return load_i64(table + index * WORD)


@jit
def float_word(table: int, index: int) -> float:
    """Entry `index` of a table, whose low half holds a float32."""
    return load_f32(table + index * WORD)


@jit
def layer_table(ctx: int, layer: int) -> int:
    """Address of a layer's table."""
    return word(word(ctx, Ctx.LAYERS) + layer * WORD, 0)


@jit
def barrier(ctx: int, epoch: int) -> int:
    """Wait until every thread is here."""
    n_threads = word(ctx, Ctx.N_THREADS)
    if n_threads > 1:
        arrivals = word(ctx, Ctx.SYNC) + Sync.ARRIVALS
        target = (epoch + 1) * n_threads
        if fetch_add(arrivals, 1) + 1 < target:
            wait_for(arrivals, target)
        else:
            wake(arrivals)
    return epoch + 1


@jit
def take(ctx: int, phase: int, tid: int, n_pieces: int) -> int:
    """The next piece of this phase that nobody has, of the thread's own share or then of another's; else n_pieces."""
    n_threads = word(ctx, Ctx.N_THREADS)
    counters = word(ctx, Ctx.SYNC) + Sync.COUNTERS + phase * n_threads * CACHE_LINE
    for i in range(n_threads):
        owner = (tid + i) % n_threads
        piece = first_piece(owner, n_threads, n_pieces) + fetch_add(counters + owner * CACHE_LINE, 1)
        if piece < first_piece(owner + 1, n_threads, n_pieces):
            return piece
    return n_pieces


@jit
def first_piece(owner: int, n_threads: int, n_pieces: int) -> int:
    """Where a thread's share begins."""
    return owner * n_pieces // n_threads


@jit
def ask_for(matrix: int, first: int) -> None:
    """Prefetch the start of a walk over the groups from `first` on."""
    start = word(matrix, Matrix.DATA) + first * word(matrix, Matrix.GROUP_BYTES)
    for line in range(0, WALK_START, CACHE_LINE):
        prefetch(start + line)


@jit
def pieces_of(matrix: int) -> Any:
    """(groups, groups a piece, pieces) of a matrix."""
    n_groups, piece = word(matrix, Matrix.N_GROUPS), word(matrix, Matrix.PIECE)
    return n_groups, piece, (n_groups + piece - 1) // piece


@jit
def ask_for_share(ctx: int, tid: int, matrix: int) -> None:
    """Prefetch the start of a thread's share of a matrix."""
    _, piece, n_pieces = pieces_of(matrix)
    ask_for(matrix, first_piece(tid, word(ctx, Ctx.N_THREADS), n_pieces) * piece)


@jit
def is_float(matrix: int) -> bool:
    """True when the matrix is multiplied with float activations, False with int8."""
    kind = word(matrix, Matrix.FORMAT)
    return kind == FLOATS[0] or kind == FLOATS[1] or kind == FLOATS[2]


@jit
def scratch(ctx: int, tid: int) -> int:
    """Address of a thread's scratch."""
    return word(ctx, Ctx.SCRATCH) + tid * word(ctx, Ctx.SCRATCH_STRIDE)


@jit
def activations(ctx: int, tid: int) -> Any:
    """Where this step's activations are, as `matmul` takes them. Large steps share them, small ones do not."""
    n_tokens = word(ctx, Ctx.N_TOKENS)
    base = scratch(ctx, tid) if n_tokens <= SMALL_STEP else word(ctx, Ctx.SHARED)
    return (
        base,
        base + word(ctx, Ctx.ACT_SCALES) * n_tokens,
        base + word(ctx, Ctx.ACT_SUMS) * n_tokens,
        base + word(ctx, Ctx.ACT_SCALED_SUMS) * n_tokens,
        base + word(ctx, Ctx.ACT_FLOATS) * n_tokens,
    )


@jit
def prepare(
    ctx: int, tid: int, epoch: int, rows: int, first: int, count: int, n: int, norm: int, ints: bool, floats: bool
) -> int:
    """Norm (where `norm` is not 0) and lay out rows first..first+count of the float32 matrix `rows` [tokens, n].

    In a small step every thread does all rows for itself; in a large one the threads share the rows and meet.
    """
    x = activations(ctx, tid)
    row_buffer = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_ROW)
    small = word(ctx, Ctx.N_TOKENS) <= SMALL_STEP
    n_threads = word(ctx, Ctx.N_THREADS)
    for t in range(count):
        if not small and t // TILE_TOKENS % n_threads != tid:  # no two threads write one cache line
            continue
        row = rows + (first + t) * n * 4
        if norm != 0:
            rms_norm(row, norm, n, float_word(ctx, Ctx.NORM_EPS), row_buffer)
            row = row_buffer
        if ints:
            quantise(row, n, t, count, x[0], x[1], x[2], x[3])
        if floats:
            place_floats(row, n, t, count, x[4])
    return epoch if small else barrier(ctx, epoch)


@jit
def cache_address(ctx: int, layer: int, kv_head: int, chunk: int) -> int:
    """Keys and values of one layer and KV head in the page of one chunk."""
    page = load_address(word(ctx, Ctx.PAGES) + chunk * WORD)
    return page + (layer * word(ctx, Ctx.N_KV_HEADS) + kv_head) * word(ctx, Ctx.PAGE_STRIDE)


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
            for d in range(head_dim):
                store_f32(target + d * 4, load_f32(row + d * 4))
        else:
            base = cache_address(ctx, layer, index, position // CHUNK)
            if is_key:
                store_key(kind, base, position % CHUNK, head_dim, row)
            else:
                store_value(kind, base, position % CHUNK, head_dim, row)


@jit
def attend_small(ctx: int, tid: int, layer: int, phase: int) -> None:
    """Few tokens: one piece is (KV head, chunk); results go to PARTIALS for phase 3 to combine."""
    n_kv_heads, head_dim, n_tokens = word(ctx, Ctx.N_KV_HEADS), word(ctx, Ctx.HEAD_DIM), word(ctx, Ctx.N_TOKENS)
    n_heads, start, max_chunks = word(ctx, Ctx.N_HEADS), word(ctx, Ctx.START), word(ctx, Ctx.MAX_CHUNKS)
    group = n_heads // n_kv_heads
    record = (head_dim + 2) * 4
    n_chunks = (start + n_tokens - 1) // CHUNK + 1
    base = scratch(ctx, tid)
    parts = base + word(ctx, Ctx.SCRATCH_PART)
    while True:
        piece = take(ctx, phase, tid, n_kv_heads * n_chunks)
        if piece >= n_kv_heads * n_chunks:
            return
        kv_head, chunk = piece // n_chunks, piece % n_chunks
        attend_chunk(
            word(ctx, Ctx.KV_KIND), cache_address(ctx, layer, kv_head, chunk), chunk,
            word(ctx, Ctx.QUERIES) + kv_head * group * head_dim * 4, n_heads * head_dim * 4, group, start, n_tokens,
            head_dim, float_word(ctx, Ctx.ATTENTION_SCALE), base + word(ctx, Ctx.SCRATCH_TILE),
            base + word(ctx, Ctx.SCRATCH_SCORES), parts,
        )  # fmt: skip
        for t in range(n_tokens):
            if start + t >= chunk * CHUNK:
                for head in range(group):
                    row = (t * n_heads + kv_head * group + head) * max_chunks + chunk
                    copy_part(word(ctx, Ctx.PARTIALS) + row * record, parts + (t * group + head) * record, head_dim)


@jit
def combine_small(ctx: int, tid: int) -> int:
    """Merge the chunks of every query in order; float32 [tokens, heads * head_dim] in this thread's scratch."""
    n_heads, head_dim, max_chunks = word(ctx, Ctx.N_HEADS), word(ctx, Ctx.HEAD_DIM), word(ctx, Ctx.MAX_CHUNKS)
    record = (head_dim + 2) * 4
    state = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_STATE)
    out = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_ATTENTION)
    for t in range(word(ctx, Ctx.N_TOKENS)):
        n_chunks = (word(ctx, Ctx.START) + t) // CHUNK + 1
        for head in range(n_heads):
            parts = word(ctx, Ctx.PARTIALS) + (t * n_heads + head) * max_chunks * record
            copy_part(state, parts, head_dim)
            for chunk in range(1, n_chunks):
                merge(state, parts + chunk * record, head_dim)
            finish(state, head_dim, out + (t * n_heads + head) * head_dim * 4)
    return out


@jit
def attend_large(ctx: int, tid: int, layer: int, phase: int) -> None:
    """A prompt chunk: one piece is (KV head, tile of tokens), which walks the chunks in order and merges as it goes."""
    n_kv_heads, head_dim, n_tokens = word(ctx, Ctx.N_KV_HEADS), word(ctx, Ctx.HEAD_DIM), word(ctx, Ctx.N_TOKENS)
    n_heads, start = word(ctx, Ctx.N_HEADS), word(ctx, Ctx.START)
    group = n_heads // n_kv_heads
    record = (head_dim + 2) * 4
    row_tile = max(1, WALK_QUERIES // group)  # tokens that share one walk over the keys
    tiles = (n_tokens + row_tile - 1) // row_tile
    base = scratch(ctx, tid)
    parts, states = base + word(ctx, Ctx.SCRATCH_PART), base + word(ctx, Ctx.SCRATCH_STATE)
    while True:
        piece = take(ctx, phase, tid, n_kv_heads * tiles)
        if piece >= n_kv_heads * tiles:
            return
        # the last tokens see the most keys: take them first, so that the phase ends evenly
        kv_head, tile = piece // tiles, tiles - 1 - piece % tiles
        first, count = tile * row_tile, min(row_tile, n_tokens - tile * row_tile)
        queries = word(ctx, Ctx.QUERIES) + (first * n_heads + kv_head * group) * head_dim * 4
        for chunk in range((start + first + count - 1) // CHUNK + 1):
            attend_chunk(
                word(ctx, Ctx.KV_KIND), cache_address(ctx, layer, kv_head, chunk), chunk, queries,
                n_heads * head_dim * 4, group, start + first, count, head_dim,
                float_word(ctx, Ctx.ATTENTION_SCALE), base + word(ctx, Ctx.SCRATCH_TILE),
                base + word(ctx, Ctx.SCRATCH_SCORES), parts,
            )  # fmt: skip
            for t in range(count):
                if start + first + t >= chunk * CHUNK:
                    for head in range(group):
                        i = (t * group + head) * record
                        if chunk == 0:
                            copy_part(states + i, parts + i, head_dim)
                        else:
                            merge(states + i, parts + i, head_dim)
        for t in range(count):
            for head in range(group):
                row = ((first + t) * n_heads + kv_head * group + head) * head_dim * 4
                finish(states + (t * group + head) * record, head_dim, word(ctx, Ctx.ATTENTION) + row)


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
    def project_heads(ctx: int, tid: int, layer: int, phase: int, epoch: int) -> int:
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
        epoch = prepare(ctx, tid, epoch, word(ctx, Ctx.RESIDUAL), 0, n_tokens, n, norm, ints, floats)
        out = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_OUT)
        while True:
            head = take(ctx, phase, tid, n_pieces)
            if head >= n_pieces:
                return epoch
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
    def gate_and_up(ctx: int, tid: int, layer: int, phase: int, epoch: int) -> int:
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
        epoch = prepare(ctx, tid, epoch, word(ctx, Ctx.RESIDUAL), 0, n_tokens, n, norm, ints, floats)
        out, out2 = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_OUT), scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_OUT2)
        while True:
            first = take(ctx, phase, tid, n_pieces) * piece
            if first >= n_groups:
                return epoch
            count = min(piece, n_groups - first)
            multiply_groups(ctx, tid, gate, first, count, n_tokens, out)
            multiply_groups(ctx, tid, up, first, count, n_tokens, out2)
            rows = min(count * lanes, n_ff - first * lanes)
            for t in range(n_tokens):
                row = t * count * lanes * 4
                silu_times(out + row, out2 + row, rows, word(ctx, Ctx.FFN) + (t * n_ff + first * lanes) * 4)

    @jit
    def lm_head(ctx: int, tid: int, phase: int, epoch: int) -> int:
        """The last phase: logits of the last N_LOGITS rows."""
        matrix, rows, n = word(ctx, Ctx.HEAD), word(ctx, Ctx.N_LOGITS), word(ctx, Ctx.D_MODEL)
        if rows == 0:
            return epoch
        first_row = word(ctx, Ctx.N_TOKENS) - rows
        floats = is_float(matrix)
        norm = word(ctx, Ctx.OUTPUT_NORM)
        ask_for_share(ctx, tid, matrix)
        epoch = prepare(ctx, tid, epoch, word(ctx, Ctx.RESIDUAL), first_row, rows, n, norm, not floats, floats)
        n_groups, piece, n_pieces = pieces_of(matrix)
        out = scratch(ctx, tid) + word(ctx, Ctx.SCRATCH_OUT)
        while True:
            first = take(ctx, phase, tid, n_pieces) * piece
            if first >= n_groups:
                return epoch
            count = min(piece, n_groups - first)
            multiply_groups(ctx, tid, matrix, first, count, rows, out)
            for t in range(rows):
                target = word(ctx, Ctx.LOGITS) + (t * word(ctx, Ctx.LOGIT_STRIDE) + first * lanes) * 4
                for i in range(count * lanes):
                    store_f32(target + i * 4, load_f32(out + (t * count * lanes + i) * 4))

    @jit
    def phases(ctx: int, tid: int) -> None:
        """The phases that this call is for."""
        n_tokens, sync = word(ctx, Ctx.N_TOKENS), word(ctx, Ctx.SYNC)
        small = n_tokens <= SMALL_STEP
        last = word(ctx, Ctx.N_LAYERS) * PHASES
        epoch = types.int64(0)
        for phase in range(word(ctx, Ctx.FIRST_PHASE), word(ctx, Ctx.END_PHASE)):
            layer, kind = phase // PHASES, phase % PHASES
            if phase == last:
                epoch = lm_head(ctx, tid, phase, epoch)
            elif kind == 0:
                epoch = project_heads(ctx, tid, layer, phase, epoch)
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
                epoch = prepare(ctx, tid, epoch, rows, 0, n_tokens, width, 0, not floats, floats)
                project_residual(ctx, tid, matrix, phase)
            elif kind == 3:
                epoch = gate_and_up(ctx, tid, layer, phase, epoch)
            else:
                matrix = word(layer_table(ctx, layer), Layer.DOWN)
                floats = is_float(matrix)
                rows = word(ctx, Ctx.FFN)
                ask_for_share(ctx, tid, matrix)
                epoch = prepare(ctx, tid, epoch, rows, 0, n_tokens, word(ctx, Ctx.D_FF), 0, not floats, floats)
                project_residual(ctx, tid, matrix, phase)
                if tid == 0 and load_acquire(sync + Sync.CANCEL) != 0:
                    store_release(sync + Sync.STOPPED, 1)
            epoch = barrier(ctx, epoch)
            if kind == PHASES - 1 and load_acquire(sync + Sync.STOPPED) != 0:
                return

    if not isa.tiles:
        return phases

    @jit
    def step(ctx: int, tid: int) -> None:
        configure_tiles()
        phases(ctx, tid)
        release_tiles()

    return step
