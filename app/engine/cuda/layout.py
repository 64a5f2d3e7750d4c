"""What the kernels and the Python around them must agree on: sizes, and the structures that a step reads.

The structures are those of kernels/layout.cuh, member for member; NumPy's aligned types lie as C++'s do, and the
kernels refuse to compile where the sizes differ. Addresses are those of device memory.
"""

from __future__ import annotations

import numpy as np

LANES = 32  # rows of a group: one for each lane of a warp
BLOCK = 32  # columns that share one activation scale
SEGMENT = 8  # blocks (256 columns) that are summed before they join the total
CHUNK = 128  # keys in one attention chunk, and in one page of the cache
PHASES = 5  # phases a layer; one more follows the last layer
STEP_SIZES = (1, 2, 4, 8)  # tokens for which there is a step kernel
PREFILL_TOKENS = 512  # tokens of the largest chunk of a prompt
TILE_TOKENS, TILE_GROUPS, TILE_THREADS = 64, 4, 256  # of one block of threads in prefill (kernels/tiles.cuh)
PREPARED_TOKENS = 8  # and where activations are made (kernels/prefill.cu)
TILE_QUERIES = 16  # queries that a block of threads attends with at a time
PLANE = LANES * 16  # bytes of one plane of a segment

KV_KINDS = {"f32": 0, "f16": 1, "q8_0": 2}


def _structure(**members: str | np.dtype[np.void]) -> np.dtype[np.void]:
    return np.dtype(list(members.items()), align=True)


_INT, _FLOAT, _ADDRESS = "i4", "f4", "u8"

MATRIX = _structure(
    data=_ADDRESS, group_bytes="i8", format=_INT, n_rows=_INT, n_groups=_INT, n_blocks=_INT
)  # fmt: skip

LAYER = _structure(
    attn_norm=_ADDRESS, ffn_norm=_ADDRESS, q_norm=_ADDRESS, k_norm=_ADDRESS, q_bias=_ADDRESS, k_bias=_ADDRESS,
    v_bias=_ADDRESS, q=MATRIX, k=MATRIX, v=MATRIX, out=MATRIX, gate=MATRIX, up=MATRIX, down=MATRIX,
)  # fmt: skip

STEP = _structure(
    n_tokens=_INT, start=_INT, n_logits=_INT, first_logit_row=_INT, n_ends=_INT, n_layers=_INT, d_model=_INT,
    d_ff=_INT, n_heads=_INT, n_kv_heads=_INT, max_chunks=_INT, logit_stride=_INT, chunk_stride=_INT, norm_eps=_FLOAT,
    attention_scale=_FLOAT, head_stride="i8", layers=_ADDRESS, output_norm=_ADDRESS, embedding=MATRIX, head=MATRIX,
    cos=_ADDRESS, sin=_ADDRESS, pages=_ADDRESS, tokens=_ADDRESS, residual=_ADDRESS, qkv=_ADDRESS, attention=_ADDRESS,
    ffn=_ADDRESS, activations=_ADDRESS, gate_up=_ADDRESS, logits=_ADDRESS, partials=_ADDRESS, arrivals=_ADDRESS,
    finished=_ADDRESS, ends=_ADDRESS, best=_ADDRESS, stopping=_ADDRESS, stop=_ADDRESS, out=_ADDRESS,
)  # fmt: skip
