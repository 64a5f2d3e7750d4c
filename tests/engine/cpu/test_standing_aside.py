"""A step leaves a core to the screen when it is asked to, and its bits and its end are the same."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.engine.cpu.decoder import CpuDecoder
from app.engine.cpu.layout import Sync
from app.engine.decoder import Interrupted
from tests.engine.decoders import all_logits, cpu_decoder
from tests.gguf_files import write_model

TOKENS = np.random.default_rng(9).integers(0, 250, 280).tolist()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "model.gguf", n_layers=6, head_dim=128)


@pytest.fixture(params=[2, 3], ids=lambda n: f"{n} threads")
def decoder(request: pytest.FixtureRequest, model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CpuDecoder]:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})  # no more cores than threads
    with cpu_decoder(model, threads=request.param) as decoder:
        yield decoder


def came_back_at(decoder: CpuDecoder) -> int:
    """The last phase of the last step at which a thread came back; 0 where none had stood aside."""
    return int(decoder._sync[Sync.RETURN_PHASE // 8])


@pytest.mark.parametrize("chunk", [1, 8, 128])
def test_a_thread_that_stands_aside_changes_no_bit(chunk: int, decoder: CpuDecoder) -> None:
    alone = all_logits(decoder, TOKENS, chunk)
    assert came_back_at(decoder) == 0
    decoder.truncate(0)
    decoder.pool.stand_aside(True)
    assert np.array_equal(all_logits(decoder, TOKENS, chunk), alone)
    assert came_back_at(decoder) == 6 * 5 + 1  # it left after the first phase and stayed away to the end
    decoder.truncate(0)
    decoder.pool.stand_aside(False)
    assert np.array_equal(all_logits(decoder, TOKENS, chunk), alone)
    assert came_back_at(decoder) == 0


def test_a_core_that_is_wanted_and_given_back_at_any_moment(decoder: CpuDecoder) -> None:
    alone = all_logits(decoder, TOKENS, 4)
    over, returns, moments = threading.Event(), set(), random.Random(1)

    def want_and_give_back() -> None:
        while not over.wait(moments.random() / 2000):
            decoder.pool.stand_aside(moments.random() < 0.5)

    other = threading.Thread(target=want_and_give_back)
    other.start()
    try:
        for _ in range(100):
            decoder.truncate(0)
            for first in range(0, len(TOKENS), 4):
                logits = decoder.forward(TOKENS[first : first + 4], 4)
                assert np.array_equal(logits, alone[first : first + 4])
                returns.add(came_back_at(decoder))
            if len(returns) > 10:
                break
    finally:
        over.set()
        other.join()
    assert len(returns) > 10, "it came back in the middle of steps"


def test_an_interrupt_while_a_thread_stands_aside(decoder: CpuDecoder) -> None:
    alone = all_logits(decoder, TOKENS, 128)
    decoder.pool.stand_aside(True)
    interrupted = 0
    for _ in range(200):
        decoder.truncate(0)
        timer = threading.Timer(0.001, decoder.interrupt)
        timer.start()
        try:
            while True:
                decoder.forward(TOKENS[:128], 1)
                decoder.truncate(0)
        except Interrupted:
            interrupted += came_back_at(decoder) > 0
        timer.join()
        if interrupted > 3:
            break
    assert interrupted > 3, "some were inside a step"
    decoder.truncate(0)
    assert np.array_equal(all_logits(decoder, TOKENS, 128), alone)


def test_nobody_stands_aside_where_there_is_a_core_to_spare(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    with cpu_decoder(model, threads=2) as decoder:
        decoder.pool.stand_aside(True)
        decoder.forward(TOKENS[:8], 1)
        assert came_back_at(decoder) == 0
