"""The facts that `models show` prints, on a real model and on a file that does not run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.errors import ModelFileError
from app.hub.describe import describe
from tests.hub.files import some_tensors, write_gguf


def test_the_facts_of_a_real_model(smollm2_path: Path) -> None:
    facts = describe(smollm2_path)
    assert facts["runnable"] is True
    assert (facts["architecture"], facts["quantisation"]) == ("llama", "Q4_1")
    assert facts["tensors"] == {"Q4_1": 210, "F32": 61, "Q8_0": 1}
    assert facts["network"]["layers"] == 30 and facts["network"]["context"] == 8192
    assert facts["tokenizer"]["splitting_rule"] == "smollm" and facts["tokenizer"]["tokens"] == 49152
    assert facts["tokenizer"]["eos"] == {"id": 2, "text": "<|im_end|>"}
    assert facts["chat_template"]["thinks"] is False
    json.dumps(facts)


def test_the_memory_is_weights_and_cache(smollm2_path: Path) -> None:
    f16, f32, q8 = (describe(smollm2_path, kv)["memory"] for kv in ("f16", "f32", "q8_0"))
    assert f16["kv_bytes_per_token"] == 2 * 30 * 3 * 64 * 2
    assert f32["kv_bytes_per_token"] == 2 * f16["kv_bytes_per_token"]
    assert q8["kv_bytes_per_token"] == 2 * 30 * 3 * 64 * 34 // 32
    assert f16["kv_bytes_full_context"] == 8192 * f16["kv_bytes_per_token"]
    assert f16["total_bytes_full_context"] == f16["weights_bytes"] + f16["kv_bytes_full_context"]
    assert 0.95 * smollm2_path.stat().st_size < f16["weights_bytes"] < smollm2_path.stat().st_size


def test_a_file_that_does_not_run_is_described_with_the_reason(tmp_path: Path) -> None:
    facts = describe(write_gguf(tmp_path / "x.gguf", some_tensors()))
    assert facts["runnable"] is False and "nothing" in facts["problem"]
    assert facts["parameters"] == 1 * 3 + 2 * 4 + 3 * 5
    assert facts["chat_template"] is None and "network" not in facts


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelFileError):
        describe(tmp_path / "x.gguf")
