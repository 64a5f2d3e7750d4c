"""QCHAT_TRACE=DIR: the output of every phase of every step as .npy files, to lay one device beside another.

A step of `count` tokens at position `start` goes to DIR/START+COUNT/, one file a result:

    layer.1-queries.npy    float32 [tokens, heads, head_dim]   after QK-norm and RoPE
    layer.3-attention.npy  float32 [tokens, heads * head_dim]  (combined in phase 3)
    layer.3-residual.npy   float32 [tokens, d_model]
    layer.4-ffn.npy        float32 [tokens, d_ff]
    layer.5-residual.npy   float32 [tokens, d_model]
    logits.npy             float32 [rows, vocab]

`reference.py` writes the same files. Heads of the llama architecture are in the engine's order (halves).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.engine.cpu.layout import PHASES, SMALL_STEP, Ctx

if TYPE_CHECKING:
    from app.engine.cpu.decoder import CpuDecoder


class Tracer:
    """Writes what each phase left in the decoder's buffers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def from_environment(cls) -> Tracer | None:
        """A tracer where QCHAT_TRACE names a folder."""
        folder = os.environ.get("QCHAT_TRACE", "")
        return cls(Path(folder)) if folder else None

    def record(self, decoder: CpuDecoder, phase: int, start: int, count: int, n_logits: int) -> None:
        """Save the results of `phase` (counted over all layers)."""
        spec = decoder.spec
        step, layer = f"{start:06d}+{count:03d}", phase // PHASES
        width = spec.n_heads * spec.head_dim
        if phase == spec.n_layers * PHASES:
            self.save(step, "logits", decoder.logits(n_logits))
        elif phase % PHASES == 0:
            queries = decoder.buffer(Ctx.QUERIES, count, width).reshape(count, spec.n_heads, spec.head_dim)
            self.save(step, f"{layer:02d}.1-queries", queries)
        elif phase % PHASES == 2:
            small = count <= SMALL_STEP
            attention = (decoder.scratch_floats if small else decoder.buffer)(
                Ctx.SCRATCH_ATTENTION if small else Ctx.ATTENTION, count, width
            )
            self.save(step, f"{layer:02d}.3-attention", attention)
            self.save(step, f"{layer:02d}.3-residual", decoder.buffer(Ctx.RESIDUAL, count, spec.d_model))
        elif phase % PHASES == 3:
            self.save(step, f"{layer:02d}.4-ffn", decoder.buffer(Ctx.FFN, count, spec.d_ff))
        elif phase % PHASES == 4:
            self.save(step, f"{layer:02d}.5-residual", decoder.buffer(Ctx.RESIDUAL, count, spec.d_model))

    def save(self, step: str, name: str, values: NDArray[np.float32]) -> None:
        """One result of one step."""
        (self.folder / step).mkdir(parents=True, exist_ok=True)
        np.save(self.folder / step / f"{name}.npy", values)
