"""What a reply took: its tokens, steps and seconds, as the engine counts them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """What a reply took, so far or in all. Seconds are the engine's own: time that the reader of the stream takes is
    in none of them.

    prompt_tokens, reused_tokens      the prompt, and how much of it was in the cache already
    generated_tokens                  tokens of the reply, without the one that stopped it
    drafted_tokens, accepted_tokens   guesses of speculation, and how many of them were right
    decode_steps, plain_steps         steps after the prompt, and those that checked no guess
    prefill_s                         reading the rest of the prompt and drawing the first token
    decode_s, plain_s                 all later steps, and those that checked no guess
    first_token_s                     from the call of `stream` to the first token; 0 while there is none
    """

    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    decode_steps: int = 0
    plain_steps: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    plain_s: float = 0.0
    first_token_s: float = 0.0


@dataclass
class StepRecord:
    """The fields of a Usage that grow with each step after the prompt."""

    drafted_tokens: int = 0
    accepted_tokens: int = 0
    decode_steps: int = 0
    plain_steps: int = 0
    decode_s: float = 0.0
    plain_s: float = 0.0

    def add(self, drawn: int, drafted: int, seconds: float) -> None:
        """A step checked `drafted` guesses and gave `drawn` tokens."""
        self.drafted_tokens += drafted
        self.accepted_tokens += drawn - 1
        self.decode_steps += 1
        self.decode_s += seconds
        if not drafted:
            self.plain_steps += 1
            self.plain_s += seconds
