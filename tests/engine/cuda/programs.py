"""The engine's program for one GPU and one format of weights, as machine code; and what of it depends on the format."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from app.engine.cuda.program import constants
from app.engine.cuda.weights import plan_weights
from app.engine.formats import GGMLType
from app.engine.gguf import read_gguf
from app.engine.spec import ModelSpec
from tests.conftest import DATA
from tests.engine.cuda.nvrtc import Compiled, compiled

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120")
WARPS = 16  # of a block of a step, as on a card


@cache
def program(architecture: str, kind: GGMLType, steps: Sequence[int]) -> Compiled:
    """With heads of 128 and an f16 cache. `steps`: sizes of step."""
    with read_gguf(DATA / "tiny-qwen3-q8_0.gguf") as gguf:
        spec = ModelSpec.from_gguf(gguf)
        values = constants(spec, plan_weights(gguf, spec), "f16", WARPS, steps)
    return compiled(architecture, values | {"FORMATS": 1 << kind})
