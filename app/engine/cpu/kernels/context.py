"""What every phase of a step reads: the words of the step context, and the pieces of work that threads share."""

from __future__ import annotations

from typing import Any

from app.engine.cpu.kernels.atomics import fetch_add
from app.engine.cpu.kernels.scalars import load_address, load_f32, load_i64, prefetch
from app.engine.cpu.kernels.vectors import jit
from app.engine.cpu.layout import CACHE_LINE, SMALL_STEP, WORD, Ctx, Matrix, Sync
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
def counters(ctx: int, phase: int) -> int:
    """Address of a phase's work counters."""
    return word(ctx, Ctx.SYNC) + Sync.COUNTERS + phase * word(ctx, Ctx.N_THREADS) * CACHE_LINE


@jit
def take(ctx: int, phase: int, tid: int, n_pieces: int) -> int:
    """The next piece of this phase that nobody has, of the thread's own share or then of another's; else n_pieces."""
    n_threads = word(ctx, Ctx.N_THREADS)
    shares = counters(ctx, phase)
    for i in range(n_threads):
        owner = (tid + i) % n_threads
        piece = first_piece(owner, n_threads, n_pieces) + fetch_add(shares + owner * CACHE_LINE, 1)
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
def cache_address(ctx: int, layer: int, kv_head: int, chunk: int) -> int:
    """Keys and values of one layer and KV head in the page of one chunk."""
    page = load_address(word(ctx, Ctx.PAGES) + chunk * WORD)
    return page + (layer * word(ctx, Ctx.N_KV_HEADS) + kv_head) * word(ctx, Ctx.PAGE_STRIDE)
