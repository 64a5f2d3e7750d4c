"""The facts that `models show` prints, on a real model and on a file that does not run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from app.errors import ModelFileError
from app.hub.describe import describe
from tests.gguf_files import MERGES, make_model, split_model, write_model
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


def test_what_the_tokenizer_and_the_template_say_is_told(tmp_path: Path) -> None:
    template = "{% if enable_thinking %}<think>{% endif %}{{ tools }}"
    facts = describe(write_model(tmp_path / "x.gguf", metadata={"tokenizer.chat_template": template}))
    assert facts["chat_template"] == {
        "characters": len(template), "thinking_switch": True, "thinks": True, "tools": True,
    }  # fmt: skip
    tokenizer = facts["tokenizer"]
    assert (tokenizer["bos"]["text"], tokenizer["eos"]["text"]) == ("<|endoftext|>", "<|im_end|>")
    assert (tokenizer["merges"], tokenizer["adds_bos"]) == (len(MERGES), False)
    template = "{{ thinking }}"
    without = {"tokenizer.chat_template": template, "tokenizer.ggml.add_bos_token": None}
    facts = describe(write_model(tmp_path / "x.gguf", metadata=without))
    assert not any(facts["chat_template"][key] for key in ("thinks", "thinking_switch", "tools"))
    assert facts["tokenizer"]["adds_bos"] is False


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (None, None), ("x", None), (np.float32(1.5), None), (["a"], None), (np.array([1, 2], np.int32), None),
        (True, None), (99_999, {"id": 99_999, "text": None}),
    ],
)  # fmt: skip
def test_a_token_that_makes_no_sense_is_told_as_far_as_it_goes(tmp_path: Path, said: object, told: object) -> None:
    facts = describe(write_model(tmp_path / "x.gguf", metadata={"tokenizer.ggml.eos_token_id": said}))
    assert facts["tokenizer"]["eos"] == told


def test_the_quantisation_is_that_of_most_bytes_and_a_name_is_text(tmp_path: Path) -> None:
    model = make_model(types={"*": "Q8_0", "*ffn*": "F16", "*norm*": "F32"}, n_layers=1, metadata={"general.name": 5})
    facts = describe(model.write(tmp_path / "x.gguf"))
    assert next(iter(facts["tensors"])) != facts["quantisation"] == "F16"
    assert facts["name"] is None
    assert describe(write_gguf(tmp_path / "y.gguf", {}))["quantisation"] == "none"


def test_of_a_split_model_all_files_are_told(tmp_path: Path) -> None:
    parts = split_model(tmp_path, "m", make_model(n_layers=1), 3)
    facts = describe(parts[0])
    assert facts["files"] == [str(part) for part in parts]
    assert facts["file_bytes"] == sum(part.stat().st_size for part in parts)


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelFileError):
        describe(tmp_path / "x.gguf")
