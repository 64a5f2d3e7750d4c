"""A device that runs by itself changes nothing of a reply: the tokens, how it ends, what the next one finds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.generate import Generator
from app.errors import ModelFileError
from tests.engine.drafts import KnownReply, RandomDrafts
from tests.engine.scripted_decoder import VOCAB, ScriptedTokenizer
from tests.engine.scripted_runs import LAUNCH_STEPS, RunningDecoder
from tests.engine.test_generate import (
    PENALISED,
    SAMPLED,
    SHORT_PROMPTS,
    expected_ids,
    ids_of,
    prompt_that_stops,
    settings_for,
)


class LateDrafts(RandomDrafts):
    """Of which those are checked that come when no run is under way."""

    def record(self, drawn: Sequence[int], drafted: int, seconds: float) -> None:
        assert drafted in (0, len(self._draft))
        self.drafts.append((self._draft[:drafted], drawn))


def late_drafts(seed: int) -> LateDrafts:
    return LateDrafts(expected_ids, range(VOCAB), seed)


@given(
    st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 3), st.booleans(),
)  # fmt: skip
def test_the_tokens_are_those_of_plain_steps(seed: int, max_tokens: int, ahead: int, speculates: bool) -> None:
    decoder, speculator = RunningDecoder(ahead, n_ctx=60), late_drafts(seed) if speculates else None
    generate = Generator(decoder, ScriptedTokenizer(), speculator)
    prompt = [seed % VOCAB, seed // VOCAB % VOCAB]
    ids = ids_of(list(generate.stream(prompt, settings_for(max_tokens))))
    assert ids == expected_ids(prompt, max_tokens)
    assert decoder.cache == [*prompt, *ids[:-1]]
    assert decoder.calls == [(2, 1)]
    usage = generate.usage
    assert usage.accepted_tokens + usage.decode_steps + 1 == max_tokens
    assert usage.drafted_tokens == sum(run.drafted for run in decoder.runs)
    assert usage.plain_steps == usage.decode_steps - sum(run.drafted > 0 for run in decoder.runs)
    if not speculates:
        assert len(decoder.runs) == -(-(max_tokens - 1) // LAUNCH_STEPS)


@pytest.mark.parametrize("sampling", [SAMPLED, PENALISED], ids=["sampled", "penalised"])
def test_only_the_best_token_of_the_models_own_logits_is_left_to_the_device(sampling) -> None:  # type: ignore[no-untyped-def]
    decoder = RunningDecoder()
    generate = Generator(decoder, ScriptedTokenizer())
    assert ids_of(list(generate.stream([1, 2], settings_for(9, sampling=sampling)))) == expected_ids(
        [1, 2], 9, sampling
    )
    assert decoder.runs == []


def test_a_device_that_cannot_is_not_asked() -> None:
    decoder = RunningDecoder()
    decoder.runs_by_itself = False
    assert ids_of(list(Generator(decoder, ScriptedTokenizer()).stream([1], settings_for(9)))) == expected_ids([1], 9)
    assert decoder.runs == []


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_draft_ends_the_run_that_is_under_way(ahead: int) -> None:
    """Two plain steps, two with a draft, and so on."""
    decoder, speculator = RunningDecoder(ahead), KnownReply()
    generate = Generator(decoder, ScriptedTokenizer(), speculator)
    speculator.know(expected_ids([1, 2], 60), 7, turns=3)
    assert ids_of(list(generate.stream([1, 2], settings_for(50)))) == expected_ids([1, 2], 50)
    assert [run.drafted > 0 for run in decoder.runs[:2]] == [False, True]
    assert generate.usage.accepted_tokens > 10


@pytest.mark.parametrize("speculates", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_nothing_follows_an_end(seed: int, speculates: bool) -> None:
    prompt, end = prompt_that_stops(12)
    decoder = RunningDecoder()
    generate = Generator(decoder, ScriptedTokenizer(), late_drafts(seed) if speculates else None)
    ids = ids_of(list(generate.stream(prompt, settings_for(30, stop=None))))
    assert (ids, generate.finish_reason) == (expected_ids(prompt, end), "stop")
    assert decoder.cache == [*prompt, *ids]


def test_the_next_turn_finds_what_the_device_has_drawn() -> None:
    decoder = RunningDecoder()
    generate = Generator(decoder, ScriptedTokenizer())
    ids = ids_of(list(generate.stream([1, 2, 3], settings_for(12))))
    following = [1, 2, 3, *ids, 4]
    assert ids_of(list(generate.stream(following, settings_for(12)))) == expected_ids(following, 12)
    assert generate.usage.reused_tokens == 3 + 11  # the last token of the reply was never fed


def test_the_end_of_the_context_is_length() -> None:
    decoder = RunningDecoder(n_ctx=16)
    generate = Generator(decoder, ScriptedTokenizer())
    assert ids_of(list(generate.stream([1, 2], settings_for(-1)))) == expected_ids([1, 2], 15)
    assert (generate.finish_reason, decoder.length) == ("length", 16)


def test_a_reply_that_only_repeats_itself_ends_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.engine.scripted_runs.logits_after", lambda tokens: np.eye(VOCAB)[5])
    decoder = RunningDecoder(n_ctx=2000)
    generate = Generator(decoder, ScriptedTokenizer())
    ids = ids_of(list(generate.stream([1, 2], settings_for(-1))))
    assert (generate.finish_reason, generate.looping) == ("length", True)
    assert set(ids[1:]) == {5} and len(decoder.cache) == len(ids) + 1
    assert decoder.runs[-1].over


def test_what_a_device_leaves_to_the_host_is_an_error_there(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = RunningDecoder()
    generate = Generator(decoder, ScriptedTokenizer())
    stream = generate.stream([1, 2], settings_for(20))
    shown = [next(stream) for _ in range(1 + LAUNCH_STEPS)]
    monkeypatch.setattr(RunningDecoder, "run_greedily", lambda self, *of: Nothing())
    broken = np.full((1, VOCAB), np.nan, np.float32)
    monkeypatch.setattr("tests.engine.scripted_decoder.logits_after", lambda tokens: broken[0])
    assert ids_of(shown) == expected_ids([1, 2], 1 + LAUNCH_STEPS)
    with pytest.raises(ModelFileError, match="the model gave nan as the score of token 0"):
        next(stream)


class Nothing:
    drafted = 0

    def next_step(self) -> tuple[Sequence[int], float | None]:
        return (), None

    def stop(self) -> None: ...

    def close(self) -> None: ...


def test_a_cancel_between_the_tokens_of_a_run_ends_the_reply_there() -> None:
    for after in range(1, 9):
        decoder = RunningDecoder()
        generate = Generator(decoder, ScriptedTokenizer())
        ids: list[int] = []
        for piece in generate.stream([1, 2, 3], settings_for(30)):
            ids += ids_of([piece])
            if len(ids) == after:
                generate.cancel()
        assert (ids, generate.finish_reason) == (expected_ids([1, 2, 3], after), "cancelled")
        assert decoder.cache == [1, 2, 3, *ids[:-1]]
        assert ids_of(list(generate.stream([1, 2, 3], settings_for(9)))) == expected_ids([1, 2, 3], 9)


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(
            SHORT_PROMPTS,
            st.integers(1, 12),  # max_tokens
            st.sampled_from(["finish", "cancel", "close", "leave open"]),
            st.integers(0, 8),  # after how many tokens
            st.booleans(),  # continue the conversation so far
        ),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
    st.integers(0, 3),
)
def test_any_history_gives_the_ids_of_a_cold_start(
    turns: list[tuple[list[int], int, str, int, bool]], speculates: bool, ahead: int
) -> None:
    decoder = RunningDecoder(ahead)
    generate = Generator(decoder, ScriptedTokenizer(), late_drafts(len(turns)) if speculates else None)
    conversation: list[int] = []
    open_streams = []
    for tokens, max_tokens, ending, after, continues in turns:
        conversation = [*conversation, *tokens] if continues else tokens
        stream = generate.stream(conversation, settings_for(max_tokens))
        open_streams.append(stream)
        ids: list[int] = []
        for piece in stream:
            ids += ids_of([piece])
            if len(ids) > after and ending == "cancel":
                generate.cancel()
            if len(ids) > after and ending in ("close", "leave open"):
                break
        if ending == "close":
            stream.close()
        assert ids == expected_ids(conversation, max_tokens)[: len(ids)]
        assert len(ids) == max_tokens or ending != "finish"
        conversation = [*conversation, *ids]
