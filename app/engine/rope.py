"""Rotary position tables: the cosine and sine of every position's angles, made once on the host.

Angle i of position p is p * theta^(-2i / head_dim), divided by the linear scaling factor and by the file's per-angle
factors where it has them (Llama 3.1). Source: Su et al., RoFormer, 2021, section 3.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.engine.spec import ModelSpec


def rope_tables(
    spec: ModelSpec, factors: NDArray[np.float32] | None, n_positions: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(cos, sin), each float32 [n_positions, head_dim / 2], computed in float64."""
    exponents = np.arange(0, spec.head_dim, 2, dtype=np.float64) / spec.head_dim
    frequencies = spec.rope_theta**-exponents / spec.rope_scale
    if factors is not None:
        frequencies = frequencies / factors.astype(np.float64)
    angles = np.arange(n_positions, dtype=np.float64)[:, np.newaxis] * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def pairs_to_halves(head_dim: int) -> NDArray[np.intp]:
    """The order of a head's rows that turns RoPE on pairs (2i, 2i+1) into RoPE on halves (i, i + head_dim/2).

    Queries and keys are reordered alike, so their dot products are the same sums in another order.
    """
    return np.concatenate((np.arange(0, head_dim, 2), np.arange(1, head_dim, 2)))
