"""The CPU engine gives the bits that docs/numerics.md specifies, for every format, architecture and option."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.engine.cpu.isa import available
from app.engine.cpu.trace import Tracer
from app.engine.decoder import Interrupted
from app.engine.formats import FORMATS, GGMLType
from app.engine.gguf import read_gguf
from app.engine.reference import ReferenceDecoder
from tests.engine.decoders import Floats, all_logits, cpu_decoder, reference_logits
from tests.gguf_files import write_model

TOKENS = np.random.default_rng(5).integers(0, 250, 24).tolist()

SHAPES: dict[str, dict[str, Any]] = {
    "qwen3": {},
    "qwen3, own head of another type": {"head": "own", "types": {"*": "Q8_0", "output.weight": "Q6_K"}},
    "qwen2 with biases": {"architecture": "qwen2"},
    "qwen2, seven heads a group": {"architecture": "qwen2", "n_heads": 7, "n_kv_heads": 1, "d_model": 224, "d_ff": 608},
    "llama, pairs": {"architecture": "llama"},
    "llama with rope factors and biases": {"architecture": "llama", "rope_factors": True, "qkv_bias": True},
    "head_dim 128, other than d_model / n_heads": {"head_dim": 128},
    "head_dim 80": {"head_dim": 80},
    "no groups": {"n_kv_heads": 4},
    "mixed like Q4_K_M": {"types": {"*": "Q4_K", "*attn_v*": "Q6_K", "*ffn_down*": "Q6_K", "token_embd*": "Q6_K"}},
    "mixed with fallbacks": {"types": "Q4_K", "d_model": 288, "d_ff": 416},
    "quantised and float in one phase": {"types": {"*": "Q5_0", "*attn_v*": "F16", "*ffn_up*": "BF16"}},
}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_bits_of_the_reference(kind: GGMLType, tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", types=kind.name)
    with cpu_decoder(path) as decoder:
        assert np.array_equal(all_logits(decoder, TOKENS, 24), reference_logits(path, TOKENS))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_architecture_gives_the_bits_of_the_reference(shape: str, tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", **SHAPES[shape])
    with cpu_decoder(path) as decoder:
        assert np.array_equal(all_logits(decoder, TOKENS, 24), reference_logits(path, TOKENS))


@pytest.mark.parametrize("kv", ["f32", "f16", "q8_0"])
def test_every_cache_type_gives_the_bits_of_the_reference(kv: str, tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf")
    with cpu_decoder(path, kv=kv) as decoder:
        assert np.array_equal(all_logits(decoder, TOKENS, 5), reference_logits(path, TOKENS, kv))


def test_numbers_too_small_to_quantise_give_the_bits_of_the_reference(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", types="Q8_0", n_layers=1)
    content = bytearray(path.read_bytes())
    norm = read_gguf(path).tensors["blk.0.attn_norm.weight"]
    np.frombuffer(content, "<f4", norm.shape[0], norm.offset)[:] *= 1e-37
    path.write_bytes(content)
    for kv in ("f16", "q8_0"):
        with cpu_decoder(path, kv=kv) as decoder:
            assert np.array_equal(all_logits(decoder, TOKENS, 24), reference_logits(path, TOKENS, kv))


def test_attention_over_several_chunks_gives_the_bits_of_the_reference(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", n_layers=1)
    tokens = np.random.default_rng(6).integers(0, 250, 300).tolist()
    with cpu_decoder(path) as decoder:
        assert np.array_equal(all_logits(decoder, tokens, 100), reference_logits(path, tokens))


@pytest.fixture(scope="module")
def one_layer_models(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Floats]:
    """A model of one layer in every format, and its logits as the reference has them."""
    folder = tmp_path_factory.mktemp("models")
    paths = [write_model(folder / f"{kind.name}.gguf", types=kind.name, n_layers=1) for kind in FORMATS]
    return {path: reference_logits(path, TOKENS) for path in paths}


@pytest.mark.parametrize("isa", available(), ids=lambda isa: isa.name)
def test_every_instruction_set_gives_the_same_bits(isa: Any, one_layer_models: dict[Path, Floats]) -> None:
    for path, wanted in one_layer_models.items():
        with cpu_decoder(path, isa=isa) as decoder:
            for chunk in (7, 24):  # 24 tokens: a matrix tile, and another one that lies over half of it
                decoder.truncate(0)
                assert np.array_equal(all_logits(decoder, TOKENS, chunk), wanted), (path.stem, chunk)


def test_a_copied_head_gives_the_answers_of_a_tied_one(tmp_path: Path) -> None:
    tied = write_model(tmp_path / "tied.gguf", head="tied")
    copied = write_model(tmp_path / "copied.gguf", head="copy")
    with cpu_decoder(tied) as a, cpu_decoder(copied) as b:
        assert np.array_equal(all_logits(a, TOKENS, 24), all_logits(b, TOKENS, 24))


def test_a_requantised_head_changes_the_logits_a_little(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf")
    with cpu_decoder(path) as exact, cpu_decoder(path, head_kind=GGMLType.Q4_0) as rough:
        a, b = all_logits(exact, TOKENS, 24), all_logits(rough, TOKENS, 24)
    error = np.linalg.norm(a - b) / np.linalg.norm(a)
    assert 0.001 < error < 0.2


@pytest.mark.parametrize("count", [3, 20])
def test_a_trace_lies_beside_the_reference_phase_by_phase(count: int, tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf")
    wanted: dict[str, Any] = {}
    with read_gguf(path) as gguf:
        ReferenceDecoder(gguf, trace=wanted.__setitem__).forward(TOKENS[:count], count)
    with cpu_decoder(path, tracer=Tracer(tmp_path / "trace")) as decoder:
        decoder.forward(TOKENS[:count], count)
    folder = tmp_path / "trace" / f"000000+{count:03d}"
    assert {file.stem for file in folder.iterdir()} == set(wanted)
    for name, array in wanted.items():
        assert np.array_equal(np.load(folder / f"{name}.npy"), array), name


def test_an_interrupt_before_a_step_leaves_the_cache_as_it_was(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf")
    with cpu_decoder(path, threads=2) as decoder:
        cold = all_logits(decoder, TOKENS, 8)
        decoder.truncate(10)
        decoder.interrupt()
        with pytest.raises(Interrupted):
            decoder.forward(TOKENS[10:], 1)
        assert decoder.length == 10
        assert np.array_equal(all_logits(decoder, TOKENS[10:], 8), cold[10:])


def test_an_interrupt_inside_a_step_ends_it_between_layers(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", n_layers=12, types="F32", context_length=2048)
    tokens = np.random.default_rng(7).integers(0, 250, 128).tolist()
    with cpu_decoder(path, threads=2) as decoder:
        for _ in range(20):
            timer = threading.Timer(0.01, decoder.interrupt)
            timer.start()
            try:
                while decoder.length < 1024:
                    decoder.forward(tokens, 1)
            except Interrupted:
                break
            finally:
                timer.join()
        assert decoder.length % 128 == 0
        kept = decoder.length
        decoder.truncate(0)
        cold = decoder.forward(tokens, 1).copy()
        decoder.truncate(0)
        assert kept < 1024
        assert np.array_equal(decoder.forward(tokens, 1), cold)


def test_the_cache_grows_with_use_and_not_with_the_context(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", context_length=40_960)
    with cpu_decoder(path) as decoder:
        decoder.forward([1], 1)
        one_page = decoder.cache.n_bytes
        assert one_page == decoder.cache.page_bytes < 1 << 20
        for _ in range(3):
            decoder.forward(TOKENS * 5, 1)
        assert decoder.cache.n_bytes == 3 * one_page
        decoder.truncate(100)
        assert decoder.cache.n_bytes == one_page


@pytest.mark.parametrize(("count", "logits"), [(0, 0), (129, 1), (5, 6), (5, -1)])
def test_a_step_refuses_what_it_cannot_hold(count: int, logits: int, tmp_path: Path) -> None:
    with cpu_decoder(write_model(tmp_path / "model.gguf")) as decoder, pytest.raises(ValueError, match="tokens at 0"):
        decoder.forward([1] * count, logits)
