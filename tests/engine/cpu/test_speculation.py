"""Speculation on real decoders: the same tokens and the same bits of logits with it and without, however it guesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.engine.cpu.decoder import CpuDecoder
from app.engine.generate import GenerationSettings, Generator
from app.engine.sampling import SamplingParams
from app.engine.speculation.speculator import Speculator
from tests.engine.decoders import cpu_decoder
from tests.engine.drafts import RandomDrafts
from tests.engine.witness import Witness
from tests.gguf_files import write_model

VOCAB = 250
SAMPLINGS = [
    SamplingParams(temperature=0),
    *(SamplingParams(temperature=t, top_p=0.95, seed=s) for t in (0.7, 1.2) for s in range(3)),
    SamplingParams(temperature=0.7, repeat_penalty=1.2, presence_penalty=0.4, frequency_penalty=0.2, seed=1),
]
TOKENS = 24


class Words:
    """Token ids are bytes; `eos_ids` end a reply."""

    def __init__(self, *ends: int) -> None:
        self.eos_ids = frozenset(ends)

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id % 256])


class Eager(Speculator):
    """Always drafts all that the automaton knows."""

    def propose(self, sequence, most, ends):  # type: ignore[no-untyped-def]
        self._read(sequence)
        self._guess = self._known.draft(min(most, 7)) if most > 0 else None
        return self._guess.tokens if self._guess else ()


@pytest.fixture(scope="module")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "mix.gguf", types={"*": "Q4_0", "token_embd*": "Q6_K"})


@pytest.fixture(params=["random", "tiny Qwen3", "tiny Qwen3, one layer less"])
def decoder(request: pytest.FixtureRequest, random_model: Path, tiny_qwen3_path: Path) -> Iterator[CpuDecoder]:
    two_layers = tiny_qwen3_path.with_name("tiny-qwen3-2l-q8_0.gguf")
    path = {"random": random_model, "tiny Qwen3": tiny_qwen3_path}.get(request.param, two_layers)
    with cpu_decoder(path, threads=2, n_ctx=256) as decoder:
        yield decoder


def reply(
    decoder: CpuDecoder, prompt: Sequence[int], sampling: SamplingParams, speculator: Speculator | None, *ends: int
) -> tuple[list[int], list[str | None], Witness]:
    """The ids, the hashes of the logits that each was drawn from, and who saw them."""
    witness = Witness(decoder)
    stream = Generator(witness, Words(*ends), speculator).stream(prompt, GenerationSettings(sampling, TOKENS))
    ids = [piece.token_id for piece in stream if piece.token_id is not None]
    return ids, witness.after(len(prompt) - 1, len(ids)), witness


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_a_reply_has_the_same_tokens_and_logits_with_speculation(decoder: CpuDecoder, sampling: SamplingParams) -> None:
    prompt = [5, 6, 7, 8, 5, 6, 7, 9, 5, 6] * 2
    plain = reply(decoder, prompt, sampling, None)
    for speculator in (Eager(), Speculator()):
        spec = reply(decoder, prompt, sampling, speculator)
        assert spec[:2] == plain[:2]


def test_a_greedy_reply_that_repeats_itself_takes_fewer_steps(decoder: CpuDecoder) -> None:
    prompt = [5, 6, 7, 8] * 5
    plain, spec = (reply(decoder, prompt, SamplingParams(temperature=0), each) for each in (None, Eager()))
    assert spec[:2] == plain[:2]
    assert len(spec[2].rows) < len(plain[2].rows)
    assert max(spec[2].rows[1:]) > 1  # steps with guesses were made at all


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(SAMPLINGS), st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=30))
def test_any_drafts_leave_tokens_logits_and_cache_as_they_are(
    tiny_qwen3_decoder: CpuDecoder, seed: int, sampling: SamplingParams, prompt: list[int]
) -> None:
    decoder = tiny_qwen3_decoder
    free = reply(decoder, prompt, sampling, None)[0]
    end = free[seed % len(free)]  # a token that does come ends the reply
    plain_ids, plain_logits, _ = reply(decoder, prompt, sampling, None, end)
    known = [*prompt, *free]
    drafts = RandomDrafts(lambda sequence, n: known[len(sequence) : len(sequence) + n], [0, 1, end], seed)
    ids, logits, witness = reply(decoder, prompt, sampling, drafts, end)
    assert (ids, logits) == (plain_ids, plain_logits)
    assert decoder.length <= len(prompt) + len(ids)
    # what is left in the cache is that of plain steps: the next logits say so
    again = reply(decoder, [*prompt, *ids], sampling, None, end)
    generator = Generator(witness, Words(end), drafts)
    list(generator.stream(prompt, GenerationSettings(sampling, TOKENS)))
    warm = [p.token_id for p in generator.stream([*prompt, *ids], GenerationSettings(sampling, TOKENS))]
    assert [i for i in warm if i is not None] == again[0]


@pytest.fixture(scope="module")
def tiny_qwen3_decoder(tiny_qwen3_path: Path) -> Iterator[CpuDecoder]:
    with cpu_decoder(tiny_qwen3_path, threads=2, n_ctx=256) as decoder:
        yield decoder
