"""The scripted decoder as a device that runs by itself: some steps ahead of who reads its tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tests.engine.scripted_decoder import ScriptedDecoder, logits_after

LAUNCH_STEPS = 5


class ScriptedRun:
    """`most` steps that have been made at once, of which `stop` leaves those that are read and `ahead` more."""

    def __init__(
        self, decoder: RunningDecoder, token: int, draft: Sequence[int], most: int, ends: Collection[int]
    ) -> None:
        self.drafted = len(draft)
        self.over = False
        self._decoder, self._steps, self._read = decoder, list[list[int]](), 0
        cache, inputs = decoder.cache[:], [token, *draft]
        while len(self._steps) < most:
            drawn: list[int] = []
            for row in range(len(inputs)):
                drawn.append(int(np.argmax(logits_after([*cache, *inputs[: row + 1]]))))
                if drawn[-1] in ends or drawn[-1:] != inputs[row + 1 : row + 2]:
                    break
            cache += [inputs[0], *drawn[:-1]]
            self._steps.append(drawn)
            if drawn[-1] in ends:
                break
            inputs = drawn[-1:]
        self._inputs = [token]

    def next_step(self) -> tuple[Sequence[int], float | None]:
        if self._read == len(self._steps):
            self.over = True
            return (), None
        drawn = self._steps[self._read]
        self._read += 1
        self._decoder.cache += [*self._inputs, *drawn[:-1]]
        self._inputs = drawn[-1:]
        return drawn, None if self._read == 1 else 0.25

    def stop(self) -> None:
        del self._steps[self._read + self._decoder.ahead :]

    def close(self) -> None:
        self.over = True


class RunningDecoder(ScriptedDecoder):
    """`runs` are those that were begun, with their guesses. Asserts that a run is over before anything else begins."""

    runs_by_itself = True

    def __init__(self, ahead: int = 1, n_ctx: int = 400, chunk: int = 8) -> None:
        super().__init__(n_ctx, chunk)
        self.ahead = ahead
        self.runs: list[ScriptedRun] = []

    def run_greedily(self, token: int, draft: Sequence[int], most: int, ends: Collection[int]) -> ScriptedRun:
        self._check()
        assert 0 <= len(draft) < most
        assert self.length + max(most, 1 + len(draft)) <= self.n_ctx
        steps = 1 if draft else min(most, LAUNCH_STEPS)
        self.runs.append(ScriptedRun(self, token, draft, steps, ends))
        return self.runs[-1]

    def forward(self, tokens: Sequence[int], n_logits: int) -> np.ndarray:
        self._check()
        return super().forward(tokens, n_logits)

    def truncate(self, length: int) -> None:
        self._check()
        super().truncate(length)

    def _check(self) -> None:
        assert all(run.over for run in self.runs)
