"""The network that a file describes: what is read from it, and that all else is refused by name (G03, G05, G08)."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.engine.gguf import read_gguf
from app.engine.spec import MemoryFacts, ModelSpec, check_runnable, memory_facts
from app.errors import ModelFileError, UnsupportedModelError
from tests import gguf_files as g

ARCHITECTURES = ("qwen2", "qwen3", "llama")


def small(**options: Any) -> g.Model:
    """A model of few weights, not quantised unless asked for."""
    return g.make_model(**({"types": "F32", "d_model": 64, "d_ff": 96} | options))


def spec_of(tmp_path: Path, model: g.Model | None = None, **options: Any) -> ModelSpec:
    path = (model or small(**options)).write(tmp_path / "model.gguf")
    with read_gguf(path) as file:
        return ModelSpec.from_gguf(file)


def refusal(tmp_path: Path, kind: type[ModelFileError], model: g.Model | None = None, **options: Any) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        spec_of(tmp_path, model, **options)
    error = caught.value
    assert type(error) is kind, error
    assert error.message.startswith("model.gguf")
    assert error.message.isprintable()
    assert error.hint
    assert error.hint.isprintable()
    return error


def unsupported(tmp_path: Path, model: g.Model | None = None, **options: Any) -> str:
    return refusal(tmp_path, UnsupportedModelError, model, **options).message


def broken(tmp_path: Path, model: g.Model | None = None, **options: Any) -> str:
    return refusal(tmp_path, ModelFileError, model, **options).message


class TestWhatIsRead:
    def test_every_dimension(self, tmp_path: Path) -> None:
        """All numbers differ, so that none can stand for another; head_dim is not d_model / n_heads."""
        spec = spec_of(
            tmp_path,
            n_layers=3,
            d_model=96,
            d_ff=160,
            n_heads=6,
            n_kv_heads=2,
            head_dim=48,
            vocab_size=333,
            context_length=40960,
            norm_eps=1e-5,
            rope_theta=1e6,
        )
        assert spec == ModelSpec(
            architecture="qwen3",
            name="random qwen3",
            n_layers=3,
            d_model=96,
            d_ff=160,
            n_heads=6,
            n_kv_heads=2,
            head_dim=48,
            vocab_size=333,
            context_length=40960,
            norm_eps=float(np.float32(1e-5)),
            rope_theta=1e6,
            rope_style="halves",
            rope_scale=1.0,
            rope_factors=False,
            qk_norm=True,
            qkv_bias=False,
            tied_head=True,
        )

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"architecture": "qwen2"}, ("halves", False, True, False)),
            ({"architecture": "qwen3"}, ("halves", True, False, False)),
            ({"architecture": "llama"}, ("pairs", False, False, False)),
            ({"architecture": "llama", "qkv_bias": True}, ("pairs", False, True, False)),
            ({"architecture": "llama", "rope_factors": True}, ("pairs", False, False, True)),
        ],
    )
    def test_options_of_the_architectures(self, tmp_path: Path, options: dict[str, Any], expected: tuple) -> None:
        spec = spec_of(tmp_path, **options)
        assert (spec.rope_style, spec.qk_norm, spec.qkv_bias, spec.rope_factors) == expected

    @pytest.mark.parametrize("architecture", ARCHITECTURES)
    @pytest.mark.parametrize("head", ["tied", "own", "copy"])
    def test_the_tensors_of_the_network_are_those_of_the_file(
        self, tmp_path: Path, architecture: str, head: str
    ) -> None:
        """G05: with and without output.weight, and with a copy of the embedding there."""
        model = small(architecture=architecture, head=head, rope_factors=architecture == "llama")
        spec = spec_of(tmp_path, model)
        assert spec.tied_head == (head == "tied")
        shapes = spec.tensor_shapes()
        assert shapes == {name: tuple(tensor.dims) for name, tensor in model.tensors.items()}

    def test_a_head_of_another_type_than_the_embedding(self, tmp_path: Path) -> None:
        """G05: file 3 of the row; a type that does not run is refused as any other tensor's."""
        types = {"*": "Q8_0", "output.weight": "Q6_K"}
        assert not spec_of(tmp_path, head="copy", types=types, d_model=256).tied_head
        model = small(head="copy")
        model.tensors["output.weight"].type = 39
        assert "tensor output.weight is MXFP4 (type 39)" in unsupported(tmp_path, model)

    @pytest.mark.parametrize("kind", g.ALL_TYPES)
    def test_every_format_is_accepted(self, tmp_path: Path, kind: str) -> None:
        assert spec_of(tmp_path, types=kind, n_layers=1, d_model=256, d_ff=256).n_layers == 1

    def test_keys_that_may_be_left_out(self, tmp_path: Path) -> None:
        keys = ("key_length", "value_length", "head_count_kv")
        metadata: dict[str, Any] = {f"llama.attention.{key}": None for key in keys}
        metadata |= {"llama.rope.freq_base": None, "llama.rope.dimension_count": None, "general.name": None}
        spec = spec_of(tmp_path, architecture="llama", d_model=256, n_kv_heads=4, metadata=metadata)
        assert (spec.head_dim, spec.n_kv_heads, spec.rope_theta, spec.name) == (64, 4, 10000.0, "model")

    def test_a_file_without_a_tokenizer_is_still_a_network(self, tmp_path: Path) -> None:
        assert spec_of(tmp_path, vocab_size=300, metadata={"tokenizer.ggml.tokens": None}).vocab_size == 300

    def test_the_name_is_safe_to_show(self, tmp_path: Path) -> None:
        spec = spec_of(tmp_path, metadata={"general.name": "\x1b[2J\n" + "n" * 500})
        assert spec.name.startswith(r"\x1b[2J\n")
        assert len(spec.name) <= 80

    @pytest.mark.parametrize(
        ("metadata", "expected"),
        [
            ({"scaling.type": "none"}, 1.0),
            ({"scaling.type": "none", "scaling.factor": 4.0}, 1.0),
            ({"scaling.type": "linear", "scaling.factor": 4.0}, 4.0),
            ({"scaling.factor": 2.5}, 2.5),
            ({"scale_linear": 2.0}, 2.0),
            ({"scaling.factor": 0.0}, 1.0),
        ],
    )
    def test_linear_rope_scaling(self, tmp_path: Path, metadata: dict[str, Any], expected: float) -> None:
        keys = {f"qwen3.rope.{key}": item for key, item in metadata.items()}
        assert spec_of(tmp_path, metadata=keys).rope_scale == expected

    def test_keys_that_ask_for_nothing_else(self, tmp_path: Path) -> None:
        metadata = {
            "qwen3.expert_count": 0,
            "qwen3.pooling_type": 0,
            "qwen3.attention.causal": True,
            "qwen3.logit_scale": 1.0,
            "qwen3.attention.sliding_window": 512,
            "qwen3.rope.scaling.attn_factor": 1.0,
        }
        assert spec_of(tmp_path, context_length=512, metadata=metadata) == spec_of(tmp_path, context_length=512)
        assert spec_of(tmp_path, metadata={"qwen3.attention.sliding_window": 0}).d_model == 64

    def test_float_vectors_of_other_types(self, tmp_path: Path) -> None:
        assert spec_of(tmp_path, types={"*": "Q8_0", "*_norm.weight": "BF16"}).qk_norm

    def test_smollm2(self, smollm2_path: Path) -> None:
        with read_gguf(smollm2_path) as file:
            spec = ModelSpec.from_gguf(file)
        assert (spec.architecture, spec.n_layers, spec.d_model, spec.d_ff) == ("llama", 30, 576, 1536)
        assert (spec.n_heads, spec.n_kv_heads, spec.head_dim, spec.vocab_size) == (9, 3, 64, 49152)
        assert (spec.context_length, spec.rope_theta, spec.rope_style, spec.tied_head) == (
            8192,
            100000.0,
            "pairs",
            True,
        )


class TestArchitecture:
    """G08: refused at the header, with the name and the list of those that run; never taken for another one."""

    @pytest.mark.parametrize(
        ("architecture", "kind", "said"),
        [
            ("gemma4", UnsupportedModelError, "architecture 'gemma4'"),
            ("qwen2vl", UnsupportedModelError, "architecture 'qwen2vl'"),
            ("qwen3moe", UnsupportedModelError, "architecture 'qwen3moe'"),
            ("Qwen3", UnsupportedModelError, "architecture 'Qwen3'"),
            ("", UnsupportedModelError, "architecture ''"),
            (None, ModelFileError, "general.architecture is missing"),
            (5, ModelFileError, "general.architecture is not a string"),
            (["qwen3"], ModelFileError, "general.architecture is not a string"),
            ("\x1b[2J\n" * 2000, UnsupportedModelError, r"'\x1b[2J\n\x1b[2J\n"),
        ],
    )
    def test_others_are_refused(
        self, tmp_path: Path, architecture: object, kind: type[ModelFileError], said: str
    ) -> None:
        error = refusal(tmp_path, kind, metadata={"general.architecture": architecture})
        assert said in error.message
        assert len(error.message) < 200
        assert error.hint == "qchat runs qwen2, qwen3, llama"


class TestTensorTypes:
    """G03: the first tensor that does not run is named, with its type and the types that do."""

    @pytest.mark.parametrize(
        ("type_id", "said"),
        [
            (39, "is MXFP4 (type 39),"),
            (34, "is TQ1_0 (type 34),"),
            (18, "is IQ3_XXS (type 18),"),
            (42, "is type 42,"),
            (105, "is type 105,"),
            (0xFFFFFFFF, "is type 4294967295,"),
        ],
    )
    def test_the_type_is_named(self, tmp_path: Path, type_id: int, said: str) -> None:
        model = small()
        model.tensors["blk.1.attn_k.weight"].type = type_id
        error = refusal(tmp_path, UnsupportedModelError, model)
        assert f"tensor blk.1.attn_k.weight {said}" in error.message
        assert "newer or unsupported quantisation; the file itself may be fine" in error.message
        assert error.hint == f"qchat runs {', '.join(g.ALL_TYPES)}"

    def test_a_list_of_models_can_ask_without_the_rest(self, tmp_path: Path) -> None:
        model = small(metadata={"qwen3.block_count": None})
        with read_gguf(model.write(tmp_path / "model.gguf")) as file:
            check_runnable(file)
        model.tensors["blk.1.attn_k.weight"].type = 39
        with read_gguf(model.write(tmp_path / "model.gguf")) as file, pytest.raises(UnsupportedModelError):
            check_runnable(file)

    def test_a_part_of_a_split_model(self, tmp_path: Path) -> None:
        message = unsupported(tmp_path, metadata={"split.count": np.uint16(3), "split.no": np.uint16(0)})
        assert "one of 3 parts" in message
        assert spec_of(tmp_path, metadata={"split.count": np.uint16(1)})


def without(*names: str) -> g.Model:
    model = small()
    for name in names:
        del model.tensors[name]
    return model


class TestTensors:
    @pytest.mark.parametrize("name", list(small(n_layers=1).tensors))
    def test_a_missing_tensor_is_named(self, tmp_path: Path, name: str) -> None:
        assert f"tensor {name} " in broken(tmp_path, without(name))

    def test_many_missing_tensors_are_counted(self, tmp_path: Path) -> None:
        message = broken(tmp_path, without("blk.0.ffn_up.weight", "blk.1.ffn_up.weight", "output_norm.weight"))
        assert "tensor blk.0.ffn_up.weight of a qwen3 network is missing, as are 2 others" in message

    def test_qwen2_needs_its_biases(self, tmp_path: Path) -> None:
        message = broken(tmp_path, architecture="qwen2", qkv_bias=False)
        assert "tensor blk.0.attn_q.bias of a qwen2 network is missing, as are 5 others" in message

    def test_biases_of_llama_are_all_there_or_none(self, tmp_path: Path) -> None:
        model = small(architecture="llama", qkv_bias=True)
        del model.tensors["blk.1.attn_v.bias"]
        assert "tensor blk.1.attn_v.bias of a llama network is missing" in broken(tmp_path, model)

    @pytest.mark.parametrize("name", list(small(n_layers=1, head="own").tensors))
    def test_a_wrong_shape_is_named_with_the_right_one(self, tmp_path: Path, name: str) -> None:
        model = small(head="own")
        found = [length + 32 for length in model.tensors[name].dims]
        expected = list(model.tensors[name].dims)
        model.tensors[name] = g.tensor(name, np.zeros(found[::-1], np.float32))
        message = broken(tmp_path, model)
        if name == "token_embd.weight":  # its rows are the vocabulary
            assert f"{found[1]} rows for a vocabulary of {expected[1]} tokens" in message
        else:
            assert f"tensor {name} has the shape {found}, expected {expected}" in message

    def test_a_transposed_matrix_is_refused(self, tmp_path: Path) -> None:
        model = small()
        model.tensors["blk.0.ffn_up.weight"] = g.tensor("blk.0.ffn_up.weight", np.zeros((64, 96), np.float32))
        assert "tensor blk.0.ffn_up.weight has the shape [96, 64], expected [64, 96]" in broken(tmp_path, model)

    def test_an_embedding_of_one_dimension(self, tmp_path: Path) -> None:
        model = small()
        model.tensors["token_embd.weight"] = g.tensor("token_embd.weight", np.zeros(64, np.float32))
        assert "token_embd.weight has the shape [64]" in broken(tmp_path, model)

    @pytest.mark.parametrize(
        ("architecture", "name"),
        [
            ("llama", "blk.0.attn_output.bias"),
            ("llama", "blk.1.ffn_gate.bias"),
            ("llama", "blk.0.attn_q_norm.weight"),
            ("llama", "rope_factors_long.weight"),
            ("qwen2", "output.bias"),
            ("qwen3", "blk.0.attn_q.bias"),
            ("qwen3", "blk.0.ffn_gate_inp.weight"),
            ("qwen3", "rope_freqs.weight"),
            ("qwen3", "blk.2.attn_norm.weight"),
        ],
    )
    def test_a_tensor_that_would_be_left_out_is_refused(self, tmp_path: Path, architecture: str, name: str) -> None:
        model = small(architecture=architecture)
        model.tensors[name] = g.tensor(name, np.zeros(256, np.float32))
        assert f"tensor {name} is not part of the {architecture} network" in unsupported(tmp_path, model)

    def test_a_quantised_vector_is_refused(self, tmp_path: Path) -> None:
        message = unsupported(tmp_path, types={"*": "Q8_0", "blk.0.ffn_norm.weight": "Q8_0"})
        assert "tensor blk.0.ffn_norm.weight is Q8_0; a vector must be F32, F16 or BF16" in message


REQUIRED = (
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.layer_norm_rms_epsilon",
)
WRONG: dict[str, tuple[str, object, str]] = {
    "zero layers": ("block_count", 0, "is 0; 1 to 24 are possible"),
    "more layers than tensors": ("block_count", 2**31, "is 2,147,483,648; 1 to 24 are possible"),
    "negative width": ("embedding_length", np.int32(-256), "is -256"),
    "huge width": ("embedding_length", np.uint64(2**63), "is 9,223,372,036,854,775,808"),
    "width as text": ("embedding_length", "256", "is not a whole number"),
    "width as a float": ("embedding_length", 256.0, "is not a whole number"),
    "width as a flag": ("embedding_length", True, "is not a whole number"),
    "no heads": ("attention.head_count", 0, "is 0"),
    "no epsilon": ("attention.layer_norm_rms_epsilon", 0.0, "is 0.0; it must be above zero"),
    "epsilon NaN": ("attention.layer_norm_rms_epsilon", float("nan"), "is nan"),
    "epsilon infinite": ("attention.layer_norm_rms_epsilon", float("inf"), "is inf"),
    "epsilon as text": ("attention.layer_norm_rms_epsilon", "1e-6", "is not a number"),
    "theta negative": ("rope.freq_base", -1.0, "is -1.0"),
    "linear scaling without a factor": ("rope.scaling.type", "linear", "rope.scaling.factor is missing"),
    "scaling backwards": ("rope.scaling.factor", -2.0, "is -2.0"),
}
OTHER_NETWORKS: dict[str, tuple[str, object, str]] = {
    "yarn": ("rope.scaling.type", "yarn", "rope.scaling.type is yarn"),
    "longrope": ("rope.scaling.type", "longrope", "rope.scaling.type is longrope"),
    "scaling of no name": ("rope.scaling.type", "", "rope.scaling.type is ,"),
    "scaling of a number": ("rope.scaling.type", 1, "rope.scaling.type is 1"),
    "a list of scalings": ("rope.scaling.type", ["yarn"], "rope.scaling.type is a list"),
    "attention factor": ("rope.scaling.attn_factor", 1.5, "attn_factor is 1.5"),
    "experts": ("expert_count", 8, "qwen3.expert_count is 8"),
    "an embedding model": ("pooling_type", 3, "qwen3.pooling_type is 3"),
    "not causal": ("attention.causal", False, "qwen3.attention.causal is False"),
    "softcap": ("final_logit_softcapping", 30.0, "final_logit_softcapping is 30.0"),
    "logit scale": ("logit_scale", 0.25, "logit_scale is 0.25"),
    "a sliding window": ("attention.sliding_window", 128, "sliding_window is 128"),
    "heads a layer": ("attention.head_count", [4, 4], "qwen3.attention.head_count is a list"),
    "a list of numbers": ("logit_scale", np.array([1.0, 1.0]), "logit_scale is a list"),
    "values of another length": ("attention.value_length", 32, "attention.value_length is 32 where keys have 64"),
    "part of a head rotated": ("rope.dimension_count", 32, "rope.dimension_count is 32 where keys have 64"),
}


class TestMetadata:
    @pytest.mark.parametrize("key", REQUIRED)
    def test_a_missing_key_is_named(self, tmp_path: Path, key: str) -> None:
        assert f"qwen3.{key} is missing" in broken(tmp_path, metadata={f"qwen3.{key}": None})

    @pytest.mark.parametrize("case", WRONG)
    def test_a_wrong_value_is_named(self, tmp_path: Path, case: str) -> None:
        key, item, said = WRONG[case]
        message = broken(tmp_path, metadata={f"qwen3.{key}": item})
        assert said in message
        assert "qwen3." in message

    @pytest.mark.parametrize("case", OTHER_NETWORKS)
    def test_another_network_is_refused_by_name(self, tmp_path: Path, case: str) -> None:
        key, item, said = OTHER_NETWORKS[case]
        assert said in unsupported(tmp_path, metadata={f"qwen3.{key}": item})

    def test_keys_of_another_architecture_are_not_taken(self, tmp_path: Path) -> None:
        model = small()
        model.metadata["qwen2.block_count"] = model.metadata.pop("qwen3.block_count")
        assert "qwen3.block_count is missing" in broken(tmp_path, model)

    def test_head_dim_that_cannot_be_derived(self, tmp_path: Path) -> None:
        metadata = {"qwen3.attention.key_length": None, "qwen3.attention.head_count": 7}
        assert "key_length is missing" in broken(tmp_path, metadata=metadata)

    def test_heads_that_cannot_be_shared(self, tmp_path: Path) -> None:
        assert "4 attention heads cannot share 3 key-value heads" in broken(tmp_path, n_kv_heads=3)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"head_dim": 40}, "attention.key_length is 40, and qchat needs a multiple of 16"),
            ({"d_model": 240}, "embedding_length is 240, and qchat needs a multiple of 32"),
            ({"d_ff": 528}, "feed_forward_length is 528, and qchat needs a multiple of 32"),
            (
                {"n_heads": 3, "n_kv_heads": 1, "head_dim": 16},
                "attention.key_length is 48, and qchat needs a multiple of 32",
            ),
        ],
    )
    def test_sizes_that_the_kernels_cannot_pack(self, tmp_path: Path, options: dict[str, int], said: str) -> None:
        assert said in unsupported(tmp_path, **options)

    def test_a_vocabulary_of_another_size(self, tmp_path: Path) -> None:
        tokens = g.tokenizer_metadata(300)["tokenizer.ggml.tokens"]
        message = broken(tmp_path, vocab_size=301, metadata={"tokenizer.ggml.tokens": tokens})
        assert "token_embd.weight has 301 rows for a vocabulary of 300 tokens" in message


def test_no_weight_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spec comes from the header alone, in good files and in refused ones."""

    def refuse(*_: object) -> None:
        raise AssertionError("a weight was read")

    monkeypatch.setattr("app.engine.gguf.GGUFFile.read", refuse)
    assert spec_of(tmp_path)
    unsupported(tmp_path, metadata={"general.architecture": "gemma4"})


def test_a_spec_cannot_be_changed(tmp_path: Path) -> None:
    spec: Any = spec_of(tmp_path)
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.d_model = 1


@pytest.mark.parametrize(("head_dim", "q8_0"), [(64, 2 * 3 * 2 * 68), (48, 2 * 3 * 2 * 68), (128, 2 * 3 * 2 * 136)])
def test_memory_facts(tmp_path: Path, head_dim: int, q8_0: int) -> None:
    model = small(n_layers=3, head_dim=head_dim, d_ff=256, types={"*": "Q8_0", "*ffn_down*": "Q6_K"})
    with read_gguf(model.write(tmp_path / "model.gguf")) as file:
        facts = memory_facts(file, ModelSpec.from_gguf(file))
    per_token = 2 * 3 * 2 * head_dim  # key and value, layers, kv heads
    assert facts == MemoryFacts(
        tensor_bytes=sum(len(tensor.data) for tensor in model.tensors.values()),
        type_counts={"Q8_0": 19, "F32": 13, "Q6_K": 3},
        kv_bytes_per_token={"f32": 4 * per_token, "f16": 2 * per_token, "q8_0": q8_0},
    )
