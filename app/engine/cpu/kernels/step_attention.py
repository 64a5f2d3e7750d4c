"""The attention phases of a step: who attends to what, and how the chunks of the cache come together."""

from __future__ import annotations

from app.engine.cpu.kernels.attention import attend_chunk, copy_part, finish, merge
from app.engine.cpu.kernels.context import cache_address, float_word, scratch, take, word
from app.engine.cpu.kernels.vectors import jit
from app.engine.cpu.layout import CHUNK, WALK_QUERIES, Ctx


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
