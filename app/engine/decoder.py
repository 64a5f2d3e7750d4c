"""What a reply needs of a network on some device: tokens in, logits out, or greedy steps that a device makes alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from app.engine.draw import Floats

if TYPE_CHECKING:
    from app.engine.spec import ModelSpec


class Interrupted(Exception):  # noqa: N818  # not an error: somebody asked for it
    """A forward call ended early because of `Decoder.interrupt`; the cache is as it was before the call."""


class Decoder(Protocol):
    """A network with its KV cache, on some device. One thread at a time calls it; `interrupt` may come from any."""

    spec: ModelSpec
    n_ctx: int  # tokens that the cache can hold
    chunk: int  # tokens that one prefill call should carry, at least 1

    @property
    def length(self) -> int:
        """Tokens in the cache."""

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens of the cache, 0 <= length <= self.length."""

    def forward(self, tokens: Sequence[int], n_logits: int) -> Floats:
        """Append `tokens` to the cache; the logits [n_logits, vocab] after each of the last `n_logits` of them.

        The result may be overwritten by the next call. Raises Interrupted, with the cache at its old length.
        """

    def interrupt(self) -> None:
        """Make the running forward call, or the next one if none runs, raise Interrupted within one layer.

        A run of greedy steps ends after the step that it is at.
        """


class GreedyRun(Protocol):
    """Greedy steps that follow each other on a device, while their tokens are read here."""

    drafted: int  # guesses that its first step checks

    def next_step(self) -> tuple[Sequence[int], float | None]:
        """The tokens that the next step gave, as soon as they are there, and its seconds where the device knows them.

        What is before the last of them is in the decoder's cache then. No tokens once the run has ended.
        """

    def stop(self) -> None:
        """Make no step after the one that runs. It, and those before it, can still be read."""

    def close(self) -> None:
        """Stop, and wait until nothing runs. Steps that were not read are not in the decoder's cache."""


@runtime_checkable
class SelfRunning(Protocol):
    """What a decoder may have beside `Decoder`: it draws greedily by itself, one step after the other."""

    @property
    def runs_by_itself(self) -> bool:
        """Whether it can, on the device at hand."""

    def run_greedily(self, token: int, draft: Sequence[int], most: int, ends: Collection[int]) -> GreedyRun:
        """Begin with `token`, which follows what the cache holds.

        Each step gives the best token after the one before; the first also checks guesses, the first ones of `draft`,
        and gives one more for each before the first wrong one. The run ends by itself after `most` steps or earlier,
        after a token of `ends`, and before a row of logits whose best is no finite number. At most one run is under
        way, and it is closed before anything else is asked of the decoder. `most` is at least 1, and the cache has room
        for as many steps and for the draft.
        """
