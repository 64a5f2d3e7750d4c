"""One answer on CUDA: steps of any size, prompts in chunks, one launch or many, every schedule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.engine.cuda.decoder import CudaDecoder
from app.engine.decoder import Interrupted
from app.engine.generate import GenerationSettings, Generator
from app.engine.gguf import read_gguf
from app.engine.sampling import SamplingParams
from app.engine.tokenizer import Segment, Tokenizer
from tests.conftest import DATA
from tests.cuda_host.build import BUILDS
from tests.engine.cuda.emulated_device import EmulatedDevice, emulated_decoder
from tests.engine.cuda.test_decoder import HEAD_DIM, logits_of
from tests.engine.decoders import Floats, cpu_decoder, reference_logits
from tests.gguf_files import write_model

TINY = DATA / "tiny-qwen3-2l-q8_0.gguf"
TRAINED = DATA / "tiny-qwen3-q4_k.gguf"  # four layers in Q4_K and Q6_K, as most people's models
PROMPT = np.random.default_rng(1).integers(0, 250, 150).tolist()
# every way in which a product reads its weights
MIX = {"*": "Q4_K", "*attn_v*": "Q6_K", "*ffn_down*": "Q5_1", "*attn_output*": "Q8_0", "*ffn_up*": "F16"}
SCHEDULES = ("warp", "reversed", "random")
QUESTIONS = (
    "hi", "Who are you?", "What is the capital of France?", "Repeat: apple river moon", "List three colours.",
    "Say hello in Japanese.", "What is the opposite of hot?", "2 + 3", "Count from 3 to 6.", "My name is Tom.",
)  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "mix.gguf", types=MIX, head_dim=HEAD_DIM, n_layers=1)


@pytest.fixture(scope="module")
def wanted(model: Path) -> Floats:
    return reference_logits(model, PROMPT)


@pytest.fixture(scope="module")
def decoder(model: Path) -> Iterator[CudaDecoder]:
    with read_gguf(model) as gguf:
        yield emulated_decoder(gguf, EmulatedDevice(n_multiprocessors=3))


@pytest.mark.parametrize("steps", [[1] * 9, [2, 3, 4], [5, 4], [6, 3], [7, 2], [8, 1], [9]], ids=str)
def test_steps_of_any_size(steps: list[int], decoder: CudaDecoder, wanted: Floats) -> None:
    decoder.truncate(0)
    assert np.array_equal(logits_of(decoder, PROMPT[:9], steps), wanted[:9])


def test_chunks_of_a_prompt_then_steps_over_two_pages(decoder: CudaDecoder, wanted: Floats) -> None:
    decoder.truncate(0)
    assert np.array_equal(logits_of(decoder, PROMPT, [64, 60, 8, 1, 17]), wanted)


def test_a_warm_cache_and_only_the_logits_that_are_asked_for(decoder: CudaDecoder, wanted: Floats) -> None:
    for length in (0, 5, 40, 128, 131):
        decoder.truncate(min(length, decoder.length))
        first = decoder.length
        assert np.array_equal(decoder.forward(PROMPT[first:140], 3), wanted[137:140])


def test_a_launch_for_each_phase(model: Path, wanted: Floats) -> None:
    with read_gguf(model) as gguf:
        decoder = emulated_decoder(gguf, EmulatedDevice(cooperative=False))
        assert not decoder.persistent
        assert np.array_equal(logits_of(decoder, PROMPT[:14], [8, 4, 1, 1]), wanted[:14])


def test_an_interrupt_leaves_the_cache_as_it_was(decoder: CudaDecoder, wanted: Floats) -> None:
    decoder.truncate(0)
    decoder.forward(PROMPT[:20], 0)
    decoder.interrupt()
    with pytest.raises(Interrupted):
        decoder.forward(PROMPT[20:30], 1)
    assert decoder.length == 20
    assert np.array_equal(decoder.forward(PROMPT[20:22], 2), wanted[20:22])


@pytest.mark.parametrize("build", ["undefined", "race"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_mixed_model_is_clean_in_every_schedule(build: str, schedule: str, model: Path, wanted: Floats) -> None:
    """One launch, and then a launch for each phase."""
    with read_gguf(model) as gguf:
        decoder = emulated_decoder(gguf, EmulatedDevice(build, schedule, seed=3))
        assert np.array_equal(logits_of(decoder, PROMPT[:13], [10, 2, 1]), wanted[:13])
        decoder.persistent = False
        decoder.truncate(11)
        assert np.array_equal(logits_of(decoder, PROMPT[11:13], [2]), wanted[11:13])


def test_the_last_block_of_a_head_sees_what_the_others_wrote(tmp_path: Path) -> None:
    """Two chunks of keys, and so two blocks with partial results of one head; two tiles of queries in each."""
    small = {"types": MIX, "head_dim": HEAD_DIM, "n_layers": 1, "d_ff": 256, "n_heads": 4, "n_kv_heads": 1}
    path = write_model(tmp_path / "small.gguf", **small)
    with read_gguf(path) as gguf:
        decoder = emulated_decoder(gguf, EmulatedDevice("race", "random", 5))
        decoder.forward(PROMPT[:125], 0)
        assert np.array_equal(decoder.forward(PROMPT[125:132], 7), reference_logits(path, PROMPT[:132])[125:])


def prompt_of(tokenizer: Tokenizer, question: str) -> list[int]:
    text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    return tokenizer.encode([Segment(text, trusted=True)])


@pytest.fixture(scope="module")
def conversation() -> tuple[list[int], list[int], Floats]:
    """A question and the trained model's answer on the CPU, in a prompt and steps of one row and of several, and the
    logits after every token."""
    with read_gguf(TRAINED) as gguf, cpu_decoder(TRAINED) as cpu:
        tokenizer = Tokenizer.from_gguf(gguf)
        question = prompt_of(tokenizer, "What is the capital of France?")
        settings = GenerationSettings(SamplingParams(temperature=0), max_tokens=11)
        reply = [piece.token_id for piece in Generator(cpu, tokenizer).stream(question, settings)]
        tokens = question + [token for token in reply if token is not None]
        cpu.truncate(0)
        return tokens, [len(question), 1, 2, 3, 5], cpu.forward(tokens, len(tokens)).copy()


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_trained_model_in_every_build_and_schedule(
    build: str, schedule: str, conversation: tuple[list[int], list[int], Floats]
) -> None:
    tokens, steps, wanted = conversation
    with read_gguf(TRAINED) as gguf:
        decoder = emulated_decoder(gguf, EmulatedDevice(build, schedule, seed=7))
        assert np.array_equal(logits_of(decoder, tokens, steps), wanted)
