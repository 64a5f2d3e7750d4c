"""What a reply took, as far as its backend knows: an engine knows all of it, a server tells what it likes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """None is not known, which is never the same as 0.

    prompt_tokens, reused_tokens      the prompt, and how much of it was in a cache already
    generated_tokens                  tokens of the reply, without the one that stopped it, which a server may count
    drafted_tokens, accepted_tokens   guesses of speculation, and how many of them were right
    decode_steps, plain_steps         steps after the prompt, and those that checked no guess
    prefill_s                         reading the rest of the prompt and drawing the first token
    decode_s                          from the first token to the last
    plain_s                           the part of it in which steps checked no guess
    first_token_s                     from the question to the first token
    """

    prompt_tokens: int | None = None
    reused_tokens: int | None = None
    generated_tokens: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    decode_steps: int | None = None
    plain_steps: int | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    plain_s: float | None = None
    first_token_s: float | None = None


def tokens_per_step(usage: Mapping[str, float | None]) -> float | None:
    """How many tokens a step gave; `usage` holds the fields of a Usage that are known."""
    steps = usage.get("decode_steps")
    return (steps + (usage.get("accepted_tokens") or 0)) / steps if steps else None


def speed_up(usage: Mapping[str, float | None]) -> float | None:
    """The time that plain steps, at the speed of this reply's own, would have taken over the time that was taken.

    None where that is not known, as in a reply that had no plain step.
    """
    steps, plain_steps = usage.get("decode_steps"), usage.get("plain_steps")
    decode_s, plain_s = usage.get("decode_s"), usage.get("plain_s")
    if not steps or not plain_steps or not decode_s or not plain_s:
        return None
    return (steps + (usage.get("accepted_tokens") or 0)) * plain_s / plain_steps / decode_s
