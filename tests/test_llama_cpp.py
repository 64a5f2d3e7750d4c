"""The helper around llama.cpp is itself an oracle, so it is checked for what the comparisons rely on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.llama_cpp import LlamaCpp


@pytest.fixture(scope="module")
def peer(smollm2_path: Path) -> Iterator[LlamaCpp]:
    with LlamaCpp(smollm2_path, n_ctx=256) as running:
        yield running


QUESTION = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


def test_greedy_ids_are_the_most_likely_ones_step_by_step(peer: LlamaCpp) -> None:
    prompt = peer.tokenize(QUESTION, control_tokens=True)
    ids = peer.greedy(prompt, 6)
    assert len(ids) == 6
    for n, token in enumerate(ids):
        likely = peer.logprobs([*prompt, *ids[:n]], top=3)
        assert (len(likely), next(iter(likely))) == (3, token)
        assert list(likely.values()) == sorted(likely.values(), reverse=True)


def test_a_reply_ends_with_the_token_that_ended_it(peer: LlamaCpp) -> None:
    prompt = peer.tokenize(QUESTION, control_tokens=True)
    ids = peer.greedy(prompt, 100)
    assert 6 < len(ids) < 100
    assert ids[-1:] == peer.tokenize("<|im_end|>", control_tokens=True)
    assert peer.greedy(prompt, 100) == ids


def test_control_tokens_only_if_asked_for(peer: LlamaCpp) -> None:
    assert len(peer.tokenize("<|im_end|>")) > 1
    assert len(peer.tokenize("<|im_end|>", control_tokens=True)) == 1


def test_a_prompt_that_does_not_fit_is_an_error(peer: LlamaCpp) -> None:
    with pytest.raises(RuntimeError, match="exceeds the available context size"):
        peer.greedy([1] * 300, 1)


def test_it_is_quiet_and_gone_afterwards(smollm2_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with LlamaCpp(smollm2_path, n_ctx=64) as peer:
        peer.greedy([1, 2, 3], 2)
    with pytest.raises(RuntimeError, match="closed"):
        peer.greedy([1, 2, 3], 2)
    with pytest.raises(RuntimeError):
        LlamaCpp(smollm2_path.with_name("missing.gguf"), n_ctx=64)
    assert capfd.readouterr() == ("", "")
