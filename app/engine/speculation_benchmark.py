"""Replies with speculation and without, in turn: what it gains on this machine, and that it changes no token."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.engine.generate import GenerationSettings, Generator
from app.engine.model import LoadedModel
from app.engine.sampling import SamplingParams
from app.engine.speculation.speculator import Speculator


@dataclass(frozen=True)
class TaskSpeeds:
    """Medians over the repetitions; speeds in tokens a second after the first token, `ratio` of pairs of replies."""

    task: str
    plain_tok_s: float
    spec_tok_s: float
    ratio: float
    tokens_per_step: float
    drafted: int
    accepted: int
    identical: bool


@dataclass(frozen=True)
class _Run:
    ids: Sequence[int]
    tok_s: float
    tokens_per_step: float
    drafted: int
    accepted: int


def compare(
    model: LoadedModel, task: str, prompt: Sequence[int], *, tokens: int, repetitions: int, sampling: SamplingParams,
    tell: Callable[[str], None],
) -> TaskSpeeds:  # fmt: skip
    """Answer `prompt` with up to `tokens` tokens, plainly and with speculation that knows nothing yet, in turn.

    Raises ContextOverflowError where the prompt is longer than the context.
    """
    plain, spec = [], []
    for turn in range(repetitions):
        tell(f"{task}, {turn + 1} of {repetitions}")
        plain.append(_reply(model, prompt, tokens, sampling, None))
        spec.append(_reply(model, prompt, tokens, sampling, Speculator()))
    return TaskSpeeds(
        task=task,
        plain_tok_s=statistics.median(run.tok_s for run in plain),
        spec_tok_s=statistics.median(run.tok_s for run in spec),
        ratio=statistics.median(b.tok_s / a.tok_s for a, b in zip(plain, spec, strict=True)),
        tokens_per_step=statistics.median(run.tokens_per_step for run in spec),
        drafted=round(statistics.median(run.drafted for run in spec)),
        accepted=round(statistics.median(run.accepted for run in spec)),
        identical=all(run.ids == plain[0].ids for run in plain + spec),
    )


def _reply(
    model: LoadedModel, prompt: Sequence[int], tokens: int, sampling: SamplingParams, speculator: Speculator | None
) -> _Run:
    generator = Generator(model.decoder, model.tokenizer, speculator)
    pieces = generator.stream(prompt, GenerationSettings(sampling, tokens))
    ids = [piece.token_id for piece in pieces if piece.token_id is not None]
    usage = generator.usage
    stepped, steps = usage.decode_steps + usage.accepted_tokens, max(usage.decode_steps, 1)
    speed = stepped / usage.decode_s if usage.decode_s else 0.0
    return _Run(ids, speed, stepped / steps, usage.drafted_tokens, usage.accepted_tokens)
