"""Greedy decoding that the GPU does by itself: what one launch gives, token by token, while it runs.

The kernel puts each token into a word of its own, in memory of the host, and looks before each further step whether one
more is wanted. A launch makes no more tokens than there are words, so neither side waits for the other, and a word
holds all that belongs to its token, so the order in which words arrive does not matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from app.engine.cuda.device import Device
from app.engine.cuda.layout import STEP_SIZES

LAUNCH_STEPS = 32  # of one launch at most: a display that hangs on the GPU waits for the whole launch
POLL_S = 5e-5  # between two looks at a word that is not there yet

_FILLED, _LAST_OF_STEP, _TOKEN = 1 << 31, 1 << 30, (1 << 30) - 1  # of a word (kernels/choose.cuh)
_CLOCK = 1 << 32  # microseconds until the device's clock starts again
_FIRST = 8  # words before the tokens, the first of which says stop: host and GPU write to different lines


class Outbox:
    """The memory through which host and kernel speak during a launch."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._memory = device.mapped((_FIRST + LAUNCH_STEPS + STEP_SIZES[-1]) * 8)
        self._words = self._memory.array.view(np.uint64)
        self.stop_address = self._memory.address
        self.address = self._memory.address + _FIRST * 8

    def clear(self) -> None:
        """For the next launch, once the one before has ended."""
        self.wait()
        self._words[:] = 0

    def stop(self) -> None:
        """The running launch makes no further step. From any thread."""
        self._words[0] = 1

    def wait(self) -> None:
        """Until nothing runs on the device."""
        while not self._device.idle():
            time.sleep(POLL_S)

    def word(self, index: int) -> int:
        """The word of token `index` of the launch, as soon as it is there; 0 where it will not come."""
        while not (word := int(self._words[_FIRST + index])):
            if self._device.idle():
                return int(self._words[_FIRST + index])
            time.sleep(POLL_S)
        return word


class GreedyRun:
    """The steps of one launch; `generate` sees them as `decoder.GreedyRun`."""

    def __init__(self, outbox: Outbox, drafted: int, keep: Callable[[int], None]) -> None:
        """`keep(n)` is told of tokens that are in the cache now."""
        self.drafted = drafted
        self._outbox, self._keep = outbox, keep
        self._index = 0
        self._clock: int | None = None  # when the last step ended

    def next_step(self) -> tuple[Sequence[int], float | None]:
        tokens: list[int] = []
        word = 0
        while not word & _LAST_OF_STEP:
            word = self._outbox.word(self._index)
            if not word:
                return (), None
            tokens.append(word & _TOKEN)
            self._index += 1
        before, self._clock = self._clock, word >> 32
        self._keep(len(tokens))
        return tokens, None if before is None else (self._clock - before) % _CLOCK / 1e6

    def stop(self) -> None:
        self._outbox.stop()

    def close(self) -> None:
        self._outbox.stop()
        self._outbox.wait()
