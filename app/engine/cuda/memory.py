"""What a model takes of a GPU's memory, before any of it is taken: weights, the buffers of a step, and each token."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.cuda.kv_cache import page_bytes
from app.engine.cuda.layout import BLOCK, CHUNK, STEP_SIZES
from app.engine.cuda.weights import WeightPlan, staging_bytes
from app.engine.gguf import GGUFFile
from app.engine.spec import ModelSpec
from app.errors import DeviceMemoryError

F32 = 4  # bytes
SPARE_BYTES = 128 << 20  # for the kernels themselves, and for what the driver keeps
SHORT_CHAT = 4096  # tokens without which a chat is better off on the CPU, if nobody asked for the GPU


def activation_bytes(plan: WeightPlan, tokens: int) -> int:
    """What so many tokens take as input of the widest matrix: int8 blocks of 44 bytes, and floats."""
    blocks = plan.longest_row // BLOCK
    return -(-blocks * tokens * 44 // 16) * 16 + plan.longest_float_row * tokens * F32


def buffer_bytes(spec: ModelSpec, plan: WeightPlan, rows: int, step_rows: int) -> dict[str, int]:
    """The buffers that a step reads and writes, by the names of layout.STEP: `rows` tokens of a chunk, or a step's."""
    heads = spec.n_heads * spec.head_dim
    return {
        "tokens": rows * 4,
        "residual": rows * spec.d_model * F32,
        "qkv": rows * (heads + 2 * spec.n_kv_heads * spec.head_dim) * F32,
        "attention": rows * heads * F32,
        "ffn": step_rows * spec.d_ff * F32,
        "activations": activation_bytes(plan, rows),
        "gate_up": rows * 2 * spec.d_ff * F32,
        "logits": step_rows * spec.vocab_size * F32,
        "arrivals": 4,
        "finished": spec.n_kv_heads * 4,
        "ends": 4,  # grows with what is given
        "best": step_rows * 8,
        "stopping": 4,
    }


def partials_bytes(spec: ModelSpec, chunks: int, step_rows: int) -> int:
    """Partial results of attention over so many chunks of keys."""
    return step_rows * spec.n_heads * chunks * (spec.head_dim + 2) * F32


@dataclass(frozen=True)
class Need:
    """Bytes: `fixed` whatever is said, `per_chunk` for every 128 tokens of a conversation."""

    fixed: int
    per_chunk: int

    def bytes_for(self, tokens: int) -> int:
        return self.fixed + -(-tokens // CHUNK) * self.per_chunk

    def tokens_in(self, free: int) -> int:
        """How long a conversation can be in so much memory."""
        return max(0, (free - self.fixed) // self.per_chunk) * CHUNK


def need_of(gguf: GGUFFile, spec: ModelSpec, plan: WeightPlan, kv: str, rows: int) -> Need:
    """What a model needs with a cache of kind `kv` and chunks of `rows` tokens. UsageError where `kv` cannot be."""
    most = STEP_SIZES[-1]
    fixed = plan.n_bytes + staging_bytes(gguf, plan) + sum(buffer_bytes(spec, plan, rows, most).values()) + SPARE_BYTES
    rotation = CHUNK * spec.head_dim * F32
    return Need(
        fixed, page_bytes(spec, kv) + 2 * (rotation + partials_bytes(spec, 1, most))
    )  # tables double as they grow


def context_that_fits(
    need: Need, free: int, n_ctx: int, *, least: int, name: str, with_q8_0: Need | None = None
) -> int:
    """How many tokens of context there is room for, at most `n_ctx`.

    least       fewer tokens than these are no answer
    with_q8_0   what is needed with a cache of that kind, where it is not the kind that was asked for
    DeviceMemoryError names what is needed, what is free, and what would fit.
    """
    least, fits = min(n_ctx, least), min(n_ctx, need.tokens_in(free))
    if fits >= least:
        return fits
    ways = [f"--ctx {fits}"] if fits else []
    if with_q8_0 is not None and (smaller := min(n_ctx, with_q8_0.tokens_in(free))) > fits:
        ways.append("--kv q8_0" if smaller == n_ctx else f"--kv q8_0 --ctx {smaller}")
    tenth = 10**8  # of a GB: what is free is rounded down and what is needed up, so that they always differ
    raise DeviceMemoryError(
        f"{name} has {free // tenth / 10:.1f} GB free, and {-(-need.bytes_for(least) // tenth) / 10:.1f} GB are needed "
        f"for a context of {least:,} tokens",
        f"{' or '.join(ways or ['a smaller model or quantisation'])} fits; --device cpu needs none of it",
    )
