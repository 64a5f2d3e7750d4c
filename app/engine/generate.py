"""One reply from one prompt: reuse of the cache, prefill, steps, and every way in which a reply can end.

Which tokens the decoder's cache holds is known to `KnownCache` alone, and how a step is made to `steps.py`.
"""

from __future__ import annotations

import time
import weakref
from array import array
from collections import abc
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from app.engine.decoder import Decoder, Interrupted
from app.engine.draw import Floats
from app.engine.known_cache import KnownCache
from app.engine.repetition import RepetitionWatch
from app.engine.sampling import Sampler, SamplingParams
from app.engine.speculation.speculator import Speculator
from app.engine.steps import steps_of
from app.engine.text_stream import StreamDecoder
from app.engine.usage import StepRecord, Usage
from app.errors import ContextOverflowError, UsageError, printable

FinishReason = Literal["stop", "length", "cancelled"]
OnProgress = Callable[[int, int], None]


class ReplyTokenizer(Protocol):
    """What a reply needs of a tokenizer."""

    @property
    def eos_ids(self) -> frozenset[int]:
        """The ids that end a reply."""

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token stands for."""


@dataclass(frozen=True)
class GenerationSettings:
    """How a reply is drawn and where it ends.

    max_tokens   at least 1, or -1 for "to the end of the context"; 0 is refused rather than given either meaning
    stop_ids     tokens that end the reply and are no part of it; None takes the tokenizer's own

    Raises UsageError.
    """

    sampling: SamplingParams
    max_tokens: int
    stop_ids: frozenset[int] | None = None

    def __post_init__(self) -> None:
        limit: object = self.max_tokens
        if not isinstance(limit, int) or isinstance(limit, bool) or (limit < 1 and limit != -1):
            raise UsageError(
                f"max_tokens must be a whole number, at least 1, not {printable(str(limit))}",
                "-1 goes on to the end of the context",
            )


@dataclass(frozen=True)
class Piece:
    """A token of the reply and the characters that it completed.

    `token_id` is None for text without a token of its own: what was held back of a character that never became whole.
    """

    token_id: int | None
    text: str


PieceStream = abc.Generator[Piece, None, None]  # an iterator that can be closed


class Generator:
    """Generates replies, one at a time, with a decoder that nobody else feeds.

    finish_reason: why the last reply ended; None while it runs and after an error. "cancelled" also when the iterator
    was closed early.
    looping: whether the last reply was ended (as "length") because it only repeated itself.
    """

    def __init__(self, decoder: Decoder, tokenizer: ReplyTokenizer, speculator: Speculator | None = None) -> None:
        """`speculator` proposes what a step may check beside its own token; None makes every step a plain one."""
        self.finish_reason: FinishReason | None = None
        self.looping = False
        self._start_usage = Usage()  # up to the first token; later ones add to `_generated_tokens` and `_steps` only
        self._generated_tokens, self._steps = 0, StepRecord()
        self._decoder = decoder
        self._cache = KnownCache(decoder)
        self._speculator = speculator
        self._tokenizer = tokenizer
        self._latest: weakref.ref[PieceStream] | None = None

    @property
    def usage(self) -> Usage:
        """What the last reply took; up to date at every piece."""
        return replace(self._start_usage, generated_tokens=self._generated_tokens, **vars(self._steps))

    def cancel(self) -> None:
        """End the reply that runs now, within one step. From any thread; does nothing to later replies."""
        self._cache.cancel()

    def stream(
        self, prompt_ids: Sequence[int], settings: GenerationSettings, on_progress: OnProgress | None = None
    ) -> PieceStream:
        """The reply to a prompt, piece by piece; closing the iterator ends it. Ends an earlier reply that still runs.

        `on_progress(done, total)` counts prompt tokens that are in the cache: once before prefill, then after every
        chunk. Raises UsageError for an empty prompt and ContextOverflowError for one that is longer than the context;
        both at once, not at the first piece.
        """
        if not prompt_ids:
            raise UsageError("the prompt is empty", "write something to answer")
        if len(prompt_ids) > self._decoder.n_ctx:
            raise ContextOverflowError(len(prompt_ids), self._decoder.n_ctx)
        if self._latest is not None and (earlier := self._latest()) is not None:
            earlier.close()
        self._cache.begin()
        self.finish_reason = None
        self.looping = False
        self._start_usage = Usage(prompt_tokens=len(prompt_ids))
        self._generated_tokens, self._steps = 0, StepRecord()
        reply = self._reply(array("q", prompt_ids), settings, on_progress, time.perf_counter())
        self._latest = weakref.ref(reply)
        return reply

    def _reply(
        self, sequence: array[int], settings: GenerationSettings, on_progress: OnProgress | None, started: float
    ) -> PieceStream:
        """Drawn tokens as pieces, up to where the reply ends. `sequence` is the prompt; the reply is appended to it."""
        stop_ids = self._tokenizer.eos_ids if settings.stop_ids is None else settings.stop_ids
        room = self._decoder.n_ctx - len(sequence) + 1  # the last token need not be in the cache
        limit = room if settings.max_tokens == -1 else min(settings.max_tokens, room)
        text, watch = StreamDecoder(self._tokenizer), RepetitionWatch()
        try:
            with closing(self._tokens(sequence, Sampler(settings.sampling), limit, stop_ids, on_progress)) as tokens:
                for token in tokens:
                    if self._generated_tokens == 0:
                        self._start_usage = replace(self._start_usage, first_token_s=time.perf_counter() - started)
                    if token in stop_ids:
                        self.finish_reason = "stop"
                        break
                    sequence.append(token)
                    self._generated_tokens += 1
                    yield Piece(token, text.push(token))
                    watch.push(token)
                    self.looping = watch.looping
                    if self.looping or self._generated_tokens == limit:
                        self.finish_reason = "length"
                        break
        except (Interrupted, GeneratorExit) as ending:
            self.finish_reason = "cancelled"
            if isinstance(ending, GeneratorExit):
                raise
        if rest := text.flush():
            yield Piece(None, rest)

    def _tokens(
        self, sequence: array[int], sampler: Sampler, limit: int, stop_ids: frozenset[int],
        on_progress: OnProgress | None,
    ) -> abc.Generator[int, None, None]:  # fmt: skip
        """The tokens that continue `sequence`, without end; the reader appends each to `sequence` before it asks again.

        The reader wants no more than `limit` of them, and none behind one of `stop_ids`: no step is made for such.
        """
        speculator = self._speculator
        clock = time.perf_counter()
        if speculator is not None:
            speculator.start(sequence)
        logits = self._prefill(sequence, on_progress)
        token = sampler.draw(logits[-1], len(sequence), sequence)
        self._start_usage = replace(self._start_usage, prefill_s=time.perf_counter() - clock)
        yield token
        with closing(steps_of(self._cache, sampler, stop_ids)) as steps:
            while True:
                clock = time.perf_counter()
                draft: Sequence[int] = ()
                wanted = limit - self._generated_tokens
                if speculator is not None:
                    draft = speculator.propose(sequence, min(wanted, self._decoder.chunk) - 1, stop_ids)
                step = steps.step(sequence, draft, wanted)
                seconds = time.perf_counter() - clock if step.seconds is None else step.seconds
                self._steps.add(len(step.drawn), step.drafted, seconds)
                if speculator is not None:
                    speculator.record(step.drawn, step.drafted, seconds)
                yield step.drawn[0]
                for token in step.drawn[1:]:
                    self._cache.raise_if_cancelled()
                    yield token

    def _prefill(self, prompt: Sequence[int], on_progress: OnProgress | None) -> Floats:
        """Logits [1, vocab] after the prompt, with the longest prefix that the cache holds kept.

        The last token is evaluated in any case: the cache holds keys and values, not logits.
        """
        done = self._cache.keep_prefix(prompt)
        self._start_usage = replace(self._start_usage, reused_tokens=done)
        report = on_progress or (lambda done, total: None)
        report(done, len(prompt))
        while True:
            chunk = prompt[done : done + self._decoder.chunk]
            done += len(chunk)
            last = done == len(prompt)
            logits = self._cache.forward(chunk, 1 if last else 0)
            report(done, len(prompt))
            if last:
                return logits
