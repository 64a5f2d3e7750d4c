"""Greedy decoding that the GPU does by itself gives the CPU engine's tokens, and leaves the CPU engine's cache."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from app.engine.cpu.decoder import CpuDecoder
from app.engine.cuda.decoder import CudaDecoder
from app.engine.cuda.greedy import LAUNCH_STEPS
from app.engine.cuda.greedy import GreedyRun as GpuRun
from app.engine.decoder import Decoder, GreedyRun
from app.engine.generate import GenerationSettings, Generator
from app.engine.gguf import read_gguf
from app.engine.sampling import SamplingParams
from app.engine.tokenizer import Segment, Tokenizer
from tests.engine.cuda.asynchronous_device import AsynchronousDevice
from tests.engine.cuda.emulated_device import EmulatedDevice, emulated_decoder
from tests.engine.cuda.test_decoder import HEAD_DIM
from tests.engine.cuda.test_one_answer import MIX, PROMPT, QUESTIONS, TINY, prompt_of
from tests.engine.decoders import Floats, cpu_decoder
from tests.engine.drafts import WRONG, KnownReply
from tests.gguf_files import make_model, tensor, write_model

GREEDY = SamplingParams(temperature=0)


def best_tokens(decoder: Decoder, prompt: Sequence[int], n: int) -> list[int]:
    """The `n` tokens that follow, each the best one after those before it; all but the last are in the cache then."""
    decoder.truncate(0)
    tokens = [int(np.argmax(decoder.forward(prompt, 1)[-1]))]
    while len(tokens) < n:
        tokens.append(int(np.argmax(decoder.forward(tokens[-1:], 1)[-1])))
    return tokens


def all_of(run: GreedyRun) -> list[list[int]]:
    """The tokens of each step."""
    return [list(tokens) for tokens, _ in iter(run.next_step, ((), None))]


@pytest.fixture(scope="module")
def trained() -> Iterator[tuple[CudaDecoder, CpuDecoder, Tokenizer]]:
    with read_gguf(TINY) as gguf, cpu_decoder(TINY) as cpu:
        yield emulated_decoder(gguf, EmulatedDevice(n_multiprocessors=3)), cpu, Tokenizer.from_gguf(gguf)


@pytest.fixture
def pair(trained: tuple[CudaDecoder, CpuDecoder, Tokenizer]) -> tuple[CudaDecoder, CpuDecoder]:
    """Decoders with the same 20 tokens in their caches."""
    gpu, cpu, _ = trained
    for decoder in (gpu, cpu):
        decoder.truncate(0)
        decoder.forward(PROMPT[:20], 0)
    return gpu, cpu


# --- replies -------------------------------------------------------------------------------------------------------


def reply_of(generate: Generator, tokenizer: Tokenizer, question: str, most: int = 40) -> tuple[list[int], str | None]:
    pieces = generate.stream(prompt_of(tokenizer, question), GenerationSettings(GREEDY, most))
    return [piece.token_id for piece in pieces if piece.token_id is not None], generate.finish_reason


def test_ten_replies_with_and_without_drafts(trained: tuple[CudaDecoder, CpuDecoder, Tokenizer]) -> None:
    gpu, cpu, tokenizer = trained
    speculator, reasons = KnownReply(), set()
    generate = Generator(gpu, tokenizer, speculator)
    for question in QUESTIONS:
        reply, reason = wanted = reply_of(Generator(cpu, tokenizer), tokenizer, question)
        reasons.add(reason)
        speculator.know([], 0, 0)
        assert reply_of(generate, tokenizer, question) == wanted
        steps = len(reply) - (reason == "length")
        assert (generate.usage.decode_steps, generate.usage.plain_steps) == (steps, steps)
        assert generate.usage.decode_s > 0
        drawn = [*reply, *tokenizer.encode([Segment("<|im_end|>", trusted=True)])] if reason == "stop" else reply
        speculator.know([*drawn, *[WRONG] * 7], 7)  # its last draft goes past the end of the reply
        assert reply_of(generate, tokenizer, question) == wanted
        assert generate.usage.decode_steps == -(-(len(drawn) - 1) // 8)
        assert generate.usage.accepted_tokens == len(drawn) - 1 - generate.usage.decode_steps
        for right, guesses in ((1, 3), (0, 1)):
            speculator.know(reply, right, guesses)
            assert reply_of(generate, tokenizer, question, 11) == (reply[:11], "length")
            assert (generate.usage.decode_steps, generate.usage.accepted_tokens) == (10 // (right + 1), right * 5)
            assert generate.usage.drafted_tokens >= 9
    assert reasons == {"stop", "length"}


def test_replies_while_tokens_are_read_behind_a_kernel_that_runs(
    trained: tuple[CudaDecoder, CpuDecoder, Tokenizer],
) -> None:
    _, cpu, tokenizer = trained
    with read_gguf(TINY) as gguf:
        gpu, speculator = emulated_decoder(gguf, AsynchronousDevice()), KnownReply()
        generate = Generator(gpu, tokenizer, speculator)
        for question in QUESTIONS[:3]:
            wanted = reply_of(Generator(cpu, tokenizer), tokenizer, question)
            for right in (7, 2):
                speculator.know(wanted[0], right, 3, turns=5)
                assert reply_of(generate, tokenizer, question) == wanted
                assert generate.usage.drafted_tokens > 0


# --- runs ----------------------------------------------------------------------------------------------------------


def test_a_run_gives_one_token_a_step_and_leaves_the_cache_of_plain_steps(pair: tuple[CudaDecoder, CpuDecoder]) -> None:
    gpu, cpu = pair
    tokens = best_tokens(cpu, [*PROMPT[:20], 5], 7)
    assert all_of(gpu.run_greedily(5, (), 7, ())) == [[token] for token in tokens]
    assert gpu.length == cpu.length == 27
    assert np.array_equal(gpu.forward(tokens[-1:], 1), cpu.forward(tokens[-1:], 1))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 9])
def test_a_draft_is_kept_up_to_the_first_wrong_guess(length: int, pair: tuple[CudaDecoder, CpuDecoder]) -> None:
    gpu, cpu = pair
    tokens = best_tokens(cpu, [*PROMPT[:20], 5], 12)
    for right in range(length + 1):
        gpu.truncate(20)
        draft = [*tokens[:right], *[WRONG] * length][:length]
        run = gpu.run_greedily(5, draft, 12, ())
        assert run.drafted == min(length, 7)
        given = tokens[: min(right, 7) + 1]
        assert all_of(run) == [given]
        assert gpu.length == 20 + len(given)
        cpu.truncate(gpu.length)
        assert np.array_equal(gpu.forward(given[-1:], 1), cpu.forward(given[-1:], 1))
        cpu.truncate(20)
        cpu.forward([5, *tokens], 0)


def test_the_kernel_goes_on_after_a_step_with_guesses(pair: tuple[CudaDecoder, CpuDecoder]) -> None:
    """Which the decoder does not ask of it. A guess that is right three steps later is forgotten by then."""
    gpu, cpu = pair
    tokens = best_tokens(cpu, [*PROMPT[:20], 5], 6)
    for draft, taken in (([*tokens[:2], WRONG], 3), ([tokens[3], WRONG, WRONG], 1)):
        gpu.truncate(20)
        gpu.run_greedily(5, draft, 12, ()).close()
        gpu._outbox.clear()
        gpu._launch_step(4, -1, gpu._phases, 4)
        run = GpuRun(gpu._outbox, 3, gpu._advance)
        assert all_of(run) == [tokens[:taken], *[[token] for token in tokens[taken : taken + 3]]]
        assert gpu.length == 20 + taken + 3
    gpu.forward(tokens[3:5], 0)
    assert np.array_equal(gpu.forward(tokens[-1:], 1), cpu.forward(tokens[-1:], 1))


def test_a_run_ends_after_a_token_that_ends_a_reply(pair: tuple[CudaDecoder, CpuDecoder]) -> None:
    gpu, cpu = pair
    tokens = best_tokens(cpu, [*PROMPT[:20], 5], 8)
    assert tokens[3] not in tokens[:3]
    for ends in ((tokens[3],), (9, tokens[5], tokens[3], 8), (*range(2000, 2100), tokens[3])):
        gpu.truncate(20)
        assert all_of(gpu.run_greedily(5, (), 8, ends)) == [[token] for token in tokens[:4]]
        gpu.truncate(20)
        assert all_of(gpu.run_greedily(5, tokens[:7], 8, ends)) == [tokens[:4]]
        assert gpu.length == 24


def test_a_run_goes_to_the_end_of_a_page_and_to_the_end_of_the_cache(
    trained: tuple[CudaDecoder, CpuDecoder, Tokenizer],
) -> None:
    _, cpu, _ = trained
    tokens = best_tokens(cpu, PROMPT[:121], 20)
    with read_gguf(TINY) as gguf:
        gpu = emulated_decoder(gguf, EmulatedDevice(), n_ctx=136)
        gpu.forward(PROMPT[:121], 0)
        first = all_of(gpu.run_greedily(tokens[0], (), 15, ()))
        assert first == [[token] for token in tokens[1:8]]
        assert gpu.length == 128
        second = all_of(gpu.run_greedily(tokens[7], (), 8, ()))
        assert second == [[token] for token in tokens[8:16]]
        assert gpu.length == 136
        for most, draft in ((1, ()), (0, ()), (2, (1, 2))):
            gpu.truncate(136 if most == 1 else 134)
            with pytest.raises(ValueError, match=r"steps and \d guesses at"):
                gpu.run_greedily(1, draft, most, ())


def test_a_launch_has_a_most_of_steps(pair: tuple[CudaDecoder, CpuDecoder]) -> None:
    gpu, _ = pair
    assert len(all_of(gpu.run_greedily(5, (), 100, ()))) == LAUNCH_STEPS


def test_where_blocks_cannot_wait_for_each_other_the_host_makes_every_step() -> None:
    with read_gguf(TINY) as gguf:
        assert not emulated_decoder(gguf, EmulatedDevice(cooperative=False)).runs_by_itself


# --- which token is the best ---------------------------------------------------------------------------------------

Scores = Callable[[int], Floats]


def with_rows(rows: dict[int, float], others: float = -1.0) -> Scores:
    def scores(n: int) -> Floats:
        values = np.full(n, others, np.float32)
        for row, value in rows.items():
            values[row] = value
        return values

    return scores


SCORES: dict[str, Scores] = {
    "the lowest of equal ones": with_rows({17: 2.0, 200: 2.0, 250: 2.0}),
    "all equal": with_rows({}),
    "zeros of both signs": with_rows({30: -1e-45, 31: 1e-45}),
    "the first row": with_rows({0: 1.0, -1: 0.5}),
    "the last row": with_rows({-1: 1.0}),
    "below zero": with_rows({100: -0.25, 101: -0.125}, -0.5),
    "tiny": with_rows({5: 1e-44, 6: 1e-43}, -1.0),
}
BROKEN: dict[str, Scores] = {
    "NaN": with_rows({40: float("nan"), 3: 2.0}),
    "negative NaN": with_rows({40: -float("nan"), 3: 2.0}),
    "infinity": with_rows({40: float("inf")}),
    "nothing but minus infinity": with_rows({}, -float("inf")),
}


def scored_model(path: Path, scores: Scores) -> Path:
    """A model whose logits are these scores after `PROMPT[:4]`, times the same number after another token."""
    model = make_model(head_dim=HEAD_DIM, n_layers=1, head="own")
    n, columns = model.tensors["output.weight"].dims[::-1]
    small = np.r_[np.ones(columns - 1, np.float32), np.float32(0.1)]  # products of it and a denormal number are zeros
    model.tensors["output_norm.weight"] = tensor("output_norm.weight", small)
    weights = np.zeros((n, columns), np.float32)
    weights[:, -1] = 1.0  # the last, so that nothing is added to -0
    model.tensors["output.weight"] = tensor("output.weight", weights)
    with cpu_decoder(model.write(path)) as cpu:
        factor = cpu.forward(PROMPT[:4], 1)[0, 0]
    weights[:, -1] = scores(n) * np.sign(factor)
    model.tensors["output.weight"] = tensor("output.weight", weights)
    return model.write(path)


@pytest.mark.parametrize("case", SCORES)
def test_the_best_token_is_the_samplers(case: str, tmp_path: Path) -> None:
    path = scored_model(tmp_path / "model.gguf", SCORES[case])
    with read_gguf(path) as gguf, cpu_decoder(path) as cpu:
        logits = cpu.forward(PROMPT[:4], 1)[0]
        gpu = emulated_decoder(gguf, EmulatedDevice(n_multiprocessors=3))
        gpu.forward(PROMPT[:3], 0)
        assert all_of(gpu.run_greedily(PROMPT[3], (), 1, ())) == [[int(np.argmax(logits))]]
        assert "signs" not in case or (np.signbit(logits[30]), logits[30], logits[31]) == (True, 0, 0)


@pytest.mark.parametrize("case", BROKEN)
def test_a_best_logit_that_is_no_number_ends_a_run_before_it(case: str, tmp_path: Path) -> None:
    path = scored_model(tmp_path / "model.gguf", BROKEN[case])
    with read_gguf(path) as gguf:
        gpu = emulated_decoder(gguf, EmulatedDevice())
        gpu.forward(PROMPT[:3], 0)
        assert all_of(gpu.run_greedily(PROMPT[3], (1, 2), 3, ())) == []
        assert gpu.length == 3
        logits = gpu.forward(PROMPT[3:4], 1)[0]
        best = logits[np.argmax(logits)]
        assert not np.isfinite(best) and np.signbit(best) == case.startswith(("negative", "nothing"))


def test_a_row_of_a_draft_that_is_no_number_ends_the_step_before_it(tmp_path: Path) -> None:
    """The embedding of one token is NaN, so every row after it is."""
    model = make_model(head_dim=HEAD_DIM, n_layers=1, head="own", types={"*": "Q8_0", "token_embd*": "F32"})
    path = model.write(tmp_path / "model.gguf")
    with cpu_decoder(path) as cpu:
        tokens = best_tokens(cpu, PROMPT[:4], 3)
    assert len({*tokens, *PROMPT[:4]}) == 7
    old = model.tensors["token_embd.weight"]
    table = np.frombuffer(old.data, np.float32).reshape(old.dims[::-1]).copy()
    table[tokens[1]] = np.nan
    model.tensors["token_embd.weight"] = tensor("token_embd.weight", table)
    with read_gguf(model.write(path)) as gguf:
        gpu = emulated_decoder(gguf, EmulatedDevice())
        gpu.forward(PROMPT[:3], 0)
        assert all_of(gpu.run_greedily(PROMPT[3], tokens, 5, ())) == [tokens[:2]]
        gpu.truncate(3)
        assert all_of(gpu.run_greedily(PROMPT[3], (), 5, ())) == [[tokens[0]], [tokens[1]]]
        assert gpu.length == 5


# --- stopping ------------------------------------------------------------------------------------------------------


def test_a_run_that_is_told_to_stop_makes_one_more_step_at_most() -> None:
    with read_gguf(TINY) as gguf, cpu_decoder(TINY) as cpu:
        gpu = emulated_decoder(gguf, AsynchronousDevice())
        tokens = best_tokens(cpu, [*PROMPT[:20], 5], LAUNCH_STEPS)
        for stop in (GreedyRun.stop, lambda run: gpu.interrupt()):
            gpu.truncate(0)
            gpu.forward(PROMPT[:20], 0)
            run = gpu.run_greedily(5, (), LAUNCH_STEPS, ())
            first = [list(run.next_step()[0]) for _ in range(3)]
            run.stop() if stop is GreedyRun.stop else stop(run)
            rest = all_of(run)
            assert [*first, *rest] == [[token] for token in tokens[: 3 + len(rest)]]
            assert len(rest) < LAUNCH_STEPS - 3
            assert gpu.length == 23 + len(rest)
            gpu._interrupt.clear()


def test_what_was_not_read_of_a_closed_run_is_not_in_the_cache(pair: tuple[CudaDecoder, CpuDecoder]) -> None:
    gpu, cpu = pair
    tokens = best_tokens(cpu, [*PROMPT[:20], 5], 9)
    run = gpu.run_greedily(5, (), 9, ())
    assert [list(run.next_step()[0]) for _ in range(2)] == [[token] for token in tokens[:2]]
    run.close()
    assert gpu.length == 22
    assert all_of(gpu.run_greedily(tokens[1], (), 7, ())) == [[token] for token in tokens[2:]]


def test_a_run_is_stopped_by_closing_it() -> None:
    with read_gguf(TINY) as gguf:
        gpu = emulated_decoder(gguf, AsynchronousDevice())
        gpu.forward(PROMPT[:20], 0)
        run = gpu.run_greedily(5, (), LAUNCH_STEPS, ())
        run.next_step()
        run.close()
        read = 1
        while run.next_step()[0]:
            read += 1
        assert read < LAUNCH_STEPS


def test_a_run_that_nobody_closed_has_ended_before_another_begins() -> None:
    with read_gguf(TINY) as gguf, cpu_decoder(TINY) as cpu:
        gpu = emulated_decoder(gguf, AsynchronousDevice())
        tokens = best_tokens(cpu, [*PROMPT[:20], 5], 3)
        gpu.forward(PROMPT[:20], 0)
        gpu.run_greedily(5, (), 9, ()).next_step()
        gpu.truncate(20)
        assert all_of(gpu.run_greedily(5, (), 3, ())) == [[token] for token in tokens]


def test_a_cancel_from_another_thread_ends_a_reply_within_a_step() -> None:
    with read_gguf(TINY) as gguf, cpu_decoder(TINY) as cpu:
        tokenizer = Tokenizer.from_gguf(gguf)
        gpu = emulated_decoder(gguf, AsynchronousDevice())
        generate = Generator(gpu, tokenizer)
        wanted = best_tokens(cpu, PROMPT[:20], 60)
        settings = GenerationSettings(GREEDY, 60, frozenset())
        shown: list[int] = []
        for piece in generate.stream(PROMPT[:20], settings):
            shown += [piece.token_id] if piece.token_id is not None else []
            if len(shown) == 5:
                other = threading.Thread(target=generate.cancel)
                other.start()
                other.join()
        assert (shown, generate.finish_reason) == (wanted[:5], "cancelled")
        assert gpu.length == 24
        again = generate.stream(PROMPT[:20], settings)
        assert [piece.token_id for piece in again if piece.token_id is not None] == wanted


# --- order ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A small model with every way to read weights, and what follows six tokens."""
    path = tmp_path_factory.mktemp("model") / "mix.gguf"
    with cpu_decoder(write_model(path, types=MIX, head_dim=HEAD_DIM, n_layers=1, head="own")) as cpu:
        tokens = best_tokens(cpu, PROMPT[:6], 13)
    assert len({*tokens}) > 9
    return path, tokens


@pytest.mark.parametrize(
    ("build", "schedule"),
    [("undefined", "random"), ("race", "warp"), ("race", "reversed"), ("race", "random"), ("race", "block-ahead")],
)
def test_runs_are_clean_in_every_schedule(build: str, schedule: str, mixed: tuple[Path, list[int]]) -> None:
    path, tokens = mixed
    with read_gguf(path) as gguf:
        gpu = emulated_decoder(gguf, EmulatedDevice(build, schedule, seed=4, n_multiprocessors=3))
        gpu.forward(PROMPT[:5], 0)
        assert all_of(gpu.run_greedily(PROMPT[5], (), 3, ())) == [[token] for token in tokens[:3]]
        assert all_of(gpu.run_greedily(tokens[2], (tokens[3], WRONG, WRONG), 9, ())) == [tokens[3:5]]
        assert all_of(gpu.run_greedily(tokens[4], tokens[5:12], 9, ())) == [tokens[5:]]
