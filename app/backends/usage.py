"""What a reply took, as far as its backend knows: an engine knows all of it, a server tells what it likes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """None is not known, which is never the same as 0.

    prompt_tokens, reused_tokens      the prompt, and how much of it was in a cache already
    generated_tokens                  tokens of the reply, without the one that stopped it
    drafted_tokens, accepted_tokens   guesses of speculation, and how many of them were right
    prefill_s                         reading the rest of the prompt and drawing the first token
    decode_s                          from the first token to the last
    first_token_s                     from the question to the first token
    """

    prompt_tokens: int | None = None
    reused_tokens: int | None = None
    generated_tokens: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    first_token_s: float | None = None
