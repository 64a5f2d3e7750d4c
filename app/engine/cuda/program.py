"""What the kernels are compiled for, and how much of a block's shared memory they take."""

from __future__ import annotations

from collections.abc import Iterable

from app.engine.cuda.layout import (
    CHUNK,
    KV_KINDS,
    LANES,
    LAYER,
    MATRIX,
    PREFILL_TOKENS,
    STEP,
    TILE_QUERIES,
    TILE_TOKENS,
)
from app.engine.cuda.memory import F32, activation_bytes
from app.engine.cuda.weights import WeightPlan
from app.engine.spec import ModelSpec

STATIC_SHARED = 4096  # bytes of a block's shared memory that the kernels declare themselves, at most


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
