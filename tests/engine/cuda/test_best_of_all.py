"""The best tokens of a row, chosen on the device: NumPy's order, lowest id first among equal logits."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.cuda.decoder import constants
from app.engine.cuda.weights import plan_weights
from app.engine.gguf import read_gguf
from app.engine.spec import ModelSpec
from tests.conftest import DATA
from tests.engine.cuda.emulated_device import WARPS, EmulatedDevice


@pytest.mark.parametrize("build", ["plain", "race"])
def test_best_of_all(build: str) -> None:
    rows, n, count = 3, 1000, 5
    logits = np.random.default_rng(0).standard_normal((rows, n + 8)).astype(np.float32)
    logits[0, [17, 600, 999]] = 9.0  # equal ones
    logits[1, :n] = -np.abs(logits[1, :n])
    logits[1, [3, 4]] = -0.0, 0.0  # equal too
    logits[:, n:] = 100.0  # past the end of a row
    device = EmulatedDevice(build, "random", 4, all_formats=build == "plain")
    with read_gguf(DATA / "tiny-qwen3-2l-q8_0.gguf") as gguf:
        spec = ModelSpec.from_gguf(gguf)
        program = device.compile(constants(spec, plan_weights(gguf, spec), "f16", WARPS, (8,)))
    given, ids, best = (device.allocate(size * 4) for size in (logits.size, rows * count, rows * count))
    device.write(given, logits)
    numbers = (np.int32(n), np.int32(n + 8), np.int32(count))
    program.launch("best_of_all", (rows,), 256, (given, *numbers, ids, best))
    got, values = np.empty((rows, count), np.int32), np.empty((rows, count), np.float32)
    device.read(ids, got)
    device.read(best, values)
    wanted = np.argsort(-logits[:, :n], axis=1, kind="stable")[:, :count]
    assert np.array_equal(got, wanted)
    assert np.array_equal(values, np.take_along_axis(logits, wanted, axis=1))
