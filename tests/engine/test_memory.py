"""Memory: what a model takes, and that nothing else grows with the context or with loading."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gguf_files import write_model
from tests.qwen_vocabulary import qwen_metadata

ROOT = Path(__file__).parents[2]
MEASURE = """
import json, sys
from app.engine.memory import peak_rss_mb
from app.engine.model import load_model
before = peak_rss_mb()
model = load_model(sys.argv[1], threads=2)
model.decoder.forward([1, 2, 3], 1)
print(json.dumps({"before": before, "peak": peak_rss_mb(), "cache": model.decoder.cache.n_bytes / 1e6,
                  "resident": model.resident_bytes / 1e6, "file": model.gguf.size / 1e6}))
"""


def measure(path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    facts: dict[str, float] = json.loads(done.stdout)
    return facts


@pytest.fixture(scope="module")
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen vocabulary of 151,936 tokens on a network of 250 MB, with a context of 40,960."""
    path = tmp_path_factory.mktemp("model") / "wide.gguf"
    return write_model(
        path, n_layers=6, d_model=1024, d_ff=3072, n_heads=16, n_kv_heads=8, head_dim=128, vocab_size=151_936,
        context_length=40_960, metadata=qwen_metadata(),
    )  # fmt: skip


def test_a_short_prompt_on_a_long_context_takes_the_file_and_little_more(wide_model: Path) -> None:
    facts = measure(wide_model)
    assert facts["cache"] < 8  # one page of 128 tokens, not 40,960
    # the interpreter with NumPy and the libraries, the vocabulary, buffers: about 110 MB whatever the model's size
    assert facts["peak"] < facts["resident"] + facts["cache"] + 125


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_K", "Q6_K"])
def test_packed_weights_take_what_the_file_takes(kind: str, tmp_path: Path) -> None:
    facts = measure(write_model(tmp_path / "model.gguf", types=kind, n_layers=8, d_model=512, d_ff=1536))
    assert facts["resident"] < 1.06 * facts["file"]
