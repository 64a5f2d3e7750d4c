"""One answer: a token's logits are the same bits alone, in a step of any size, with any threads, warm or cold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.engine.cpu.decoder import CpuDecoder
from tests.engine.decoders import all_logits, cpu_decoder, digest
from tests.gguf_files import write_model

PROMPT = np.random.default_rng(1).integers(0, 250, 300).tolist()
MIX = {"*": "Q4_K", "*attn_v*": "Q6_K", "*ffn_down*": "Q5_0", "*attn_output*": "Q8_0", "*ffn_gate*": "Q4_1"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "mix.gguf", types=MIX, head_dim=128)


@pytest.fixture(scope="module")
def token_by_token(model: Path) -> str:
    with cpu_decoder(model) as decoder:
        return digest(all_logits(decoder, PROMPT, 1))


@pytest.fixture(params=[1, 2, 3], ids=lambda n: f"{n} threads")
def decoder(request: pytest.FixtureRequest, model: Path) -> Iterator[CpuDecoder]:
    with cpu_decoder(model, threads=request.param) as decoder:
        yield decoder


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5, 6, 7, 8, 64, 128])
def test_steps_of_any_size(chunk: int, decoder: CpuDecoder, token_by_token: str) -> None:
    assert digest(all_logits(decoder, PROMPT, chunk)) == token_by_token


def test_a_prompt_of_256_in_full_chunks_then_single_steps(decoder: CpuDecoder, token_by_token: str) -> None:
    logits = [all_logits(decoder, PROMPT[:256], 128), all_logits(decoder, PROMPT[256:], 1)]
    assert digest(np.concatenate(logits)) == token_by_token


def test_a_warm_cache_after_truncation_at_every_length(model: Path) -> None:
    prompt = PROMPT[:50]
    with cpu_decoder(model, threads=2) as decoder:
        cold = all_logits(decoder, prompt, 50)
        for length in range(50):
            decoder.truncate(length)
            assert np.array_equal(all_logits(decoder, prompt[length:], 50), cold[length:]), length


@pytest.mark.parametrize("kv", ["f32", "f16", "q8_0"])
def test_every_cache_type_across_its_pages(kv: str, model: Path) -> None:
    with cpu_decoder(model, kv=kv, threads=2) as decoder:
        alone = digest(all_logits(decoder, PROMPT, 1))
        decoder.truncate(0)
        assert digest(all_logits(decoder, PROMPT, 128)) == alone
