"""One reply at a time: whatever ended the replies before it, each equals the answer of a cold start."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.generate import GenerationSettings, Generator, Piece
from app.engine.repetition import LEAST_TOKENS
from app.engine.sampling import Sampler, SamplingParams
from app.engine.speculation.speculator import Speculator
from app.engine.usage import Usage
from app.errors import ContextOverflowError, UsageError
from tests.engine.drafts import RandomDrafts
from tests.engine.scripted_decoder import STOP, VOCAB, ScriptedDecoder, ScriptedTokenizer, logits_after

GREEDY = SamplingParams(temperature=0)
SAMPLED = SamplingParams(temperature=1.5, top_p=0.9, repeat_penalty=1.2, seed=11)
PENALISED = SamplingParams(temperature=0, repeat_penalty=1.3, presence_penalty=0.5, frequency_penalty=0.3)
ENDLESS = frozenset[int]()


def settings_for(max_tokens: int = -1, *, sampling: SamplingParams = GREEDY, stop: frozenset[int] | None = ENDLESS):
    return GenerationSettings(sampling, max_tokens, stop)


def generator(speculator: Speculator | None = None, **options: object) -> tuple[Generator, ScriptedDecoder]:
    decoder = ScriptedDecoder(**options)  # type: ignore[arg-type]
    return Generator(decoder, ScriptedTokenizer(), speculator), decoder


def expected_ids(prompt: Sequence[int], n: int, sampling: SamplingParams = GREEDY) -> list[int]:
    """What a cold decoder answers, said without a cache."""
    sequence, sampler = list(prompt), Sampler(sampling)
    for _ in range(n):
        sequence.append(sampler.draw(logits_after(sequence), len(sequence), sequence))
    return sequence[len(prompt) :]


def drafts(seed: int, sampling: SamplingParams = GREEDY) -> RandomDrafts:
    """Guesses for the scripted network, right and wrong ones."""
    return RandomDrafts(lambda sequence, n: expected_ids(sequence, n, sampling), range(VOCAB), seed)


def ids_of(pieces: Sequence[Piece]) -> list[int]:
    return [piece.token_id for piece in pieces if piece.token_id is not None]


def prompt_that_stops(within: int) -> tuple[list[int], int]:
    """A prompt whose greedy reply reaches STOP after some tokens, and after how many."""
    for first in range(VOCAB):
        ids = expected_ids([first, 1], within)
        if STOP in ids[1:]:
            return [first, 1], ids.index(STOP)
    raise AssertionError("no such prompt; change the script")


def test_a_reply_that_only_repeats_itself_is_ended() -> None:
    decoder = ScriptedDecoder(n_ctx=2000)
    generate = Generator(decoder, ScriptedTokenizer())
    always_five = np.eye(VOCAB, dtype=np.float32)[[5]]
    decoder.forward = lambda tokens, n_logits: (decoder.cache.extend(tokens), always_five)[1]  # type: ignore[method-assign]
    ids = ids_of(list(generate.stream([1, 2], settings_for(-1))))
    assert (generate.finish_reason, generate.looping) == ("length", True)
    assert ids == [5] * (LEAST_TOKENS + 1)
    assert list(generate.stream([1, 2], settings_for(3, stop=frozenset({5})))) == []
    assert not generate.looping


# --- how a reply ends ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("speculator", [None, *map(drafts, range(5))])
@pytest.mark.parametrize("n", [1, 2, 3, 20])
def test_max_tokens_is_exact(n: int, speculator: Speculator | None) -> None:
    generate, decoder = generator(speculator)
    assert ids_of(list(generate.stream([1, 2, 3], settings_for(n)))) == expected_ids([1, 2, 3], n)
    assert (generate.finish_reason, generate.usage.generated_tokens) == ("length", n)
    assert decoder.length == 3 + n - 1  # the last token was not fed: nobody asked what follows it


@pytest.mark.parametrize("bad", [0, -2, 1.5, "x", True, None])
def test_other_limits_are_refused(bad: object) -> None:
    with pytest.raises(UsageError, match=r"^max_tokens must be"):
        GenerationSettings(GREEDY, bad)  # type: ignore[arg-type]
    assert GenerationSettings(GREEDY, 10**12).max_tokens == 10**12


def test_a_stop_token_ends_the_reply_and_is_no_part_of_it() -> None:
    prompt, n = prompt_that_stops(within=40)
    generate, decoder = generator(n_ctx=128)
    pieces = list(generate.stream(prompt, settings_for(stop=None)))
    assert ids_of(pieces) == expected_ids(prompt, n)
    assert (generate.finish_reason, generate.usage.generated_tokens) == ("stop", n)
    assert decoder.length == len(prompt) + n  # the whole reply is there for the next turn, its end is not
    again = list(generate.stream(prompt, settings_for(n, stop=None)))
    assert (ids_of(again), generate.finish_reason) == (ids_of(pieces), "length")


def test_settings_may_name_other_stop_tokens() -> None:
    ids = expected_ids([4], 10)
    generate, _ = generator()
    assert ids_of(list(generate.stream([4], settings_for(stop=frozenset({ids[6]}))))) == ids[: ids.index(ids[6])]
    assert generate.finish_reason == "stop"


@pytest.mark.parametrize("limit", [-1, 1000])
@pytest.mark.parametrize("room", [0, 1, 5])
def test_the_end_of_the_context_is_length(limit: int, room: int) -> None:
    generate, decoder = generator(n_ctx=16)
    prompt = [n % VOCAB for n in range(16 - room)]
    assert ids_of(list(generate.stream(prompt, settings_for(limit)))) == expected_ids(prompt, room + 1)
    assert (generate.finish_reason, decoder.length) == ("length", 16)


def test_a_prompt_that_cannot_be_answered_is_refused_at_once_and_costs_nothing() -> None:
    generate, decoder = generator(n_ctx=16)
    list(generate.stream([1, 2, 3], settings_for(2)))
    calls = len(decoder.calls)
    with pytest.raises(ContextOverflowError) as refusal:
        generate.stream(range(17), settings_for())
    assert (refusal.value.needed, refusal.value.available) == (17, 16)
    with pytest.raises(UsageError, match="the prompt is empty"):
        generate.stream([], settings_for())
    assert (len(decoder.calls), decoder.length) == (calls, 4)


# --- text ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=20), st.integers(1, 40))
def test_joined_text_is_the_text_of_the_ids(prompt: list[int], n: int) -> None:
    generate, _ = generator()
    pieces = list(generate.stream(prompt, settings_for(n)))
    raw = b"".join(map(ScriptedTokenizer().token_bytes, ids_of(pieces)))
    assert "".join(piece.text for piece in pieces) == raw.decode(errors="replace")
    assert all(piece.text for piece in pieces if piece.token_id is None)


# --- prefill -------------------------------------------------------------------------------------------------------


def test_prefill_goes_in_chunks_and_reports_them() -> None:
    generate, decoder = generator(chunk=8)
    progress: list[tuple[int, int]] = []
    list(generate.stream(range(20), settings_for(2), lambda done, total: progress.append((done, total))))
    assert decoder.calls == [(8, 0), (8, 0), (4, 1), (1, 1)]
    assert progress == [(0, 20), (8, 20), (16, 20), (20, 20)]


def test_the_common_prefix_is_kept() -> None:
    generate, decoder = generator()
    prompt = list(range(10))
    reply = ids_of(list(generate.stream(prompt, settings_for(5))))
    decoder.calls.clear()
    progress: list[tuple[int, int]] = []
    following = [*prompt, *reply, 7, 8]
    after = list(generate.stream(following, settings_for(3), lambda done, total: progress.append((done, total))))
    assert ids_of(after) == expected_ids(following, 3)
    assert generate.usage.reused_tokens == 14  # the last token of the reply was never fed
    assert progress == [(14, 17), (17, 17)]
    assert decoder.calls == [(3, 1), (1, 1), (1, 1)]


def test_the_same_prompt_again_evaluates_its_last_token() -> None:
    generate, decoder = generator()
    first = ids_of(list(generate.stream([5, 6, 7], settings_for(4))))
    decoder.calls.clear()
    assert ids_of(list(generate.stream([5, 6, 7], settings_for(4)))) == first
    assert (generate.usage.reused_tokens, decoder.calls[0]) == (2, (1, 1))


def test_a_cache_that_lost_tokens_is_not_trusted() -> None:
    generate, decoder = generator()
    list(generate.stream(range(10), settings_for(5)))
    decoder.truncate(3)
    assert ids_of(list(generate.stream(range(10), settings_for(5)))) == expected_ids(range(10), 5)
    assert generate.usage.reused_tokens == 3


def known_after(call: int) -> int:
    """Tokens of range(10) and its reply in the cache after `call` whole calls with a chunk of 4: 0, 4, 8, 10, 11 ..."""
    return min(4 * call, 10 + max(0, call - 3))


# --- cancelling ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [0, 1, 2, 3, 6])
def test_cancel_inside_a_forward_call_ends_the_reply_there(call: int) -> None:
    generate, decoder = generator(chunk=4)
    decoder.during = {call: generate.cancel}
    pieces = list(generate.stream(range(10), settings_for()))
    assert ids_of(pieces) == expected_ids(range(10), max(0, call - 2))
    assert (generate.finish_reason, len(decoder.calls)) == ("cancelled", call + 1)
    assert decoder.length == known_after(call)
    assert ids_of(list(generate.stream(range(10), settings_for(6)))) == expected_ids(range(10), 6)


def test_cancel_between_steps_evaluates_nothing_more() -> None:
    generate, decoder = generator()
    stream = generate.stream([1, 2], settings_for())
    next(stream)
    generate.cancel()
    calls = len(decoder.calls)
    assert ids_of(list(stream)) == []
    assert (generate.finish_reason, len(decoder.calls)) == ("cancelled", calls)


def test_cancel_before_the_first_step_counts_and_one_before_the_reply_does_not() -> None:
    generate, decoder = generator()
    generate.cancel()
    stream = generate.stream([1, 2], settings_for(3))
    generate.cancel()
    assert (list(stream), generate.finish_reason, decoder.length) == ([], "cancelled", 0)
    generate.cancel()  # reaches the decoder when nothing runs: the next reply must not notice
    assert ids_of(list(generate.stream([1, 2], settings_for(3)))) == expected_ids([1, 2], 3)
    assert generate.finish_reason == "length"


def test_cancel_from_another_thread() -> None:
    generate, decoder = generator(n_ctx=100_000)
    inside, cancelled = threading.Event(), threading.Event()

    def wait_inside() -> None:
        inside.set()
        assert cancelled.wait(10)

    def press_escape() -> None:
        assert inside.wait(10)
        generate.cancel()
        cancelled.set()

    decoder.during = {50: wait_inside}
    other = threading.Thread(target=press_escape)
    other.start()
    pieces = list(generate.stream([1, 2], settings_for()))
    other.join()
    assert (len(ids_of(pieces)), generate.finish_reason) == (50, "cancelled")


def test_closing_the_iterator_cancels() -> None:
    generate, decoder = generator()
    stream = generate.stream([1, 2], settings_for())
    shown = [next(stream), next(stream)]
    stream.close()
    assert (generate.finish_reason, generate.usage.generated_tokens, decoder.length) == ("cancelled", 2, 3)
    following = [1, 2, *ids_of(shown), 9]
    assert ids_of(list(generate.stream(following, settings_for(4)))) == expected_ids(following, 4)
    assert generate.usage.reused_tokens == 3


def test_a_new_reply_ends_one_that_was_left_open() -> None:
    generate, _ = generator()
    left_open = generate.stream([1, 2], settings_for())
    next(left_open)
    reply = list(generate.stream([3, 4], settings_for(4)))
    assert list(left_open) == []
    assert (ids_of(reply), generate.finish_reason) == (expected_ids([3, 4], 4), "length")


# --- errors --------------------------------------------------------------------------------------------------------


def fail() -> None:
    raise MemoryError("no room for the cache")


@pytest.mark.parametrize("call", [0, 1, 2, 3, 5])
def test_an_error_in_the_decoder_is_passed_on_and_forgotten(call: int) -> None:
    generate, decoder = generator(chunk=4)
    decoder.during = {call: fail}
    with pytest.raises(MemoryError):
        list(generate.stream(range(10), settings_for()))
    assert generate.finish_reason is None
    assert decoder.length > known_after(call)  # half of the failed call's tokens are still there
    assert ids_of(list(generate.stream(range(10), settings_for(6)))) == expected_ids(range(10), 6)
    assert generate.usage.reused_tokens == min(known_after(call), 9)


# --- everything together -------------------------------------------------------------------------------------------

SHORT_PROMPTS = st.lists(st.integers(0, 3), min_size=1, max_size=16)  # few tokens, so that prefixes really meet


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(
            SHORT_PROMPTS,
            st.integers(1, 12),  # max_tokens
            st.sampled_from(["finish", "cancel inside", "fail inside", "cancel between", "close", "leave open"]),
            st.integers(0, 8),  # after how many forward calls or tokens
            st.booleans(),  # continue the conversation so far
        ),
        min_size=1,
        max_size=8,
    )
)
@pytest.mark.parametrize("speculates", [False, True])
def test_any_history_gives_the_ids_of_a_cold_start(
    speculates: bool, turns: list[tuple[list[int], int, str, int, bool]]
) -> None:
    generate, decoder = generator(drafts(len(turns), SAMPLED) if speculates else None, n_ctx=400, chunk=8)
    conversation: list[int] = []
    open_streams = []
    for tokens, max_tokens, ending, after, continues in turns:
        conversation = [*conversation, *tokens] if continues else tokens
        happening: dict[str, Callable[[], None]] = {"cancel inside": generate.cancel, "fail inside": fail}
        decoder.during = {len(decoder.calls) + after: happening[ending]} if ending in happening else {}
        stream = generate.stream(conversation, settings_for(max_tokens, sampling=SAMPLED))
        open_streams.append(stream)
        ids: list[int] = []
        try:
            for piece in stream:
                ids += ids_of([piece])
                if len(ids) > after and ending == "cancel between":
                    generate.cancel()
                if len(ids) > after and ending in ("close", "leave open"):
                    break
        except MemoryError:
            assert ending == "fail inside"
        if ending == "close":
            stream.close()
        assert ids == expected_ids(conversation, max_tokens, SAMPLED)[: len(ids)]
        assert len(ids) == max_tokens or ending != "finish"
        conversation = [*conversation, *ids]


# --- speculation ---------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([GREEDY, SAMPLED, PENALISED]))
def test_any_drafts_leave_the_reply_as_it_is(seed: int, max_tokens: int, sampling: SamplingParams) -> None:
    speculator = drafts(seed, sampling)
    generate, decoder = generator(speculator, n_ctx=60)
    prompt = [seed % VOCAB, seed // VOCAB % VOCAB]
    ids = ids_of(list(generate.stream(prompt, settings_for(max_tokens, sampling=sampling))))
    assert ids == expected_ids(prompt, max_tokens, sampling)
    assert decoder.cache == [*prompt, *ids[:-1]]  # neither wrong guesses nor a token more
    usage = generate.usage
    accepted = sum(len(drawn) - 1 for _, drawn in speculator.drafts)
    assert (usage.accepted_tokens, usage.decode_steps) == (accepted, len(speculator.drafts))
    assert usage.drafted_tokens == sum(len(draft) for draft, _ in speculator.drafts)
    assert usage.plain_steps == sum(not draft for draft, _ in speculator.drafts)
    assert usage.accepted_tokens + usage.decode_steps + 1 == max_tokens
    for draft, drawn in speculator.drafts:
        assert list(draft[: len(drawn) - 1]) == list(drawn[:-1])
        assert len(drawn) == len(draft) + 1 or drawn[-1] != draft[len(drawn) - 1]


@pytest.mark.parametrize("seed", range(20))
def test_nothing_follows_an_end_inside_a_draft(seed: int) -> None:
    prompt, end = prompt_that_stops(12)
    speculator = drafts(seed)
    generate, decoder = generator(speculator)
    ids = ids_of(list(generate.stream(prompt, settings_for(30, stop=None))))
    assert (ids, generate.finish_reason) == (expected_ids(prompt, end), "stop")
    assert decoder.cache == [*prompt, *ids]
    assert all(STOP not in drawn[:-1] for _, drawn in speculator.drafts)


@pytest.mark.parametrize("seed", range(10))
def test_a_cancel_between_the_tokens_of_a_step_ends_the_reply_there(seed: int) -> None:
    generate, _ = generator(drafts(seed))
    ids: list[int] = []
    for piece in generate.stream([1, 2, 3], settings_for(30)):
        ids += ids_of([piece])
        if len(ids) == 6:
            generate.cancel()
    assert (ids, generate.finish_reason) == (expected_ids([1, 2, 3], 6), "cancelled")
    assert generate.usage.generated_tokens == 6
    assert ids_of(list(generate.stream([1, 2, 3], settings_for(9)))) == expected_ids([1, 2, 3], 9)


def test_a_draft_stays_within_the_context_and_the_size_of_a_step() -> None:
    for seed in range(20):
        generate, decoder = generator(drafts(seed), n_ctx=16, chunk=5)  # the decoder asserts both
        assert ids_of(list(generate.stream([1, 2], settings_for(-1)))) == expected_ids([1, 2], 15)
        assert decoder.length == 16


def test_a_reply_that_quotes_takes_fewer_steps_and_later_ones_still_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))  # every step takes as long as any other
    text = [3, 1, 4, 1, 5, 9, 2, 6, 8, 7, 0] * 4

    class Quoting(ScriptedDecoder):
        def forward(self, tokens: Sequence[int], n_logits: int) -> np.ndarray:
            super().forward(tokens, n_logits)
            ends = range(self.length - n_logits, self.length)
            return np.array([np.eye(VOCAB)[text[(end + 1) % len(text)]] for end in ends], np.float32)

    decoder = Quoting(n_ctx=600)
    generate = Generator(decoder, ScriptedTokenizer(), Speculator())
    prompt = text[:22]
    for _ in range(2):  # the second prompt holds the first reply, which the cache and the speculator know
        decoder.calls.clear()
        ids = ids_of(list(generate.stream(prompt, settings_for(66))))
        assert ids == (text * 9)[len(prompt) : len(prompt) + 66]
        usage = generate.usage
        assert usage.decode_steps < 25 and usage.accepted_tokens > 40
        assert len(decoder.calls) == usage.decode_steps + (3 if usage.reused_tokens == 0 else 1)
        prompt = prompt + ids
    text[:] = [token + 15 for token in text]
    ids = ids_of(list(generate.stream(text[:22], settings_for(66))))
    assert ids == (text * 9)[22:88]
    assert generate.usage.decode_steps < 25, "another conversation is guessed from what is in it"


def test_usage_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(np.arange(0, 1000, 1.0))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(seconds)))
    generate, _ = generator(chunk=8)
    list(generate.stream(range(20), settings_for(3)))
    # One tick at the call, one before and after prefill, one at the first token, two around each later step.
    expected = Usage(
        prompt_tokens=20, generated_tokens=3, decode_steps=2, plain_steps=2, prefill_s=1, decode_s=2, plain_s=2,
        first_token_s=3,
    )  # fmt: skip
    assert generate.usage == expected
