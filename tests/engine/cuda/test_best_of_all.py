"""The best tokens of a row, chosen on the device: NumPy's order, lowest id first among equal logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.engine.cuda.decoder import constants
from app.engine.cuda.layout import STEP_SIZES
from app.engine.cuda.weights import plan_weights
from app.engine.gguf import read_gguf
from app.engine.spec import ModelSpec
from tests.engine.cuda.emulated_device import WARPS, EmulatedDevice
from tests.engine.cuda.test_decoder import HEAD_DIM
from tests.engine.cuda.test_one_answer import MIX
from tests.gguf_files import write_model


@pytest.mark.parametrize("build", ["plain", "race"])
def test_best_of_all(build: str, tmp_path: Path) -> None:
    rows, n, count = 3, 1000, 5
    logits = np.random.default_rng(0).standard_normal((rows, n + 8)).astype(np.float32)
    logits[0, [17, 600, 999]] = 9.0  # equal ones
    logits[1, :n] = -np.abs(logits[1, :n])
    logits[1, [3, 4]] = -0.0, 0.0  # equal too
    logits[:, n:] = 100.0  # past the end of a row
    device = EmulatedDevice(build, "random", 4, all_formats=build == "plain")
    sizes = STEP_SIZES if build == "plain" else (8,)  # programs that other tests have as well
    with read_gguf(write_model(tmp_path / "model.gguf", types=MIX, head_dim=HEAD_DIM, n_layers=1)) as gguf:
        spec = ModelSpec.from_gguf(gguf)
        program = device.compile(constants(spec, plan_weights(gguf, spec), "f16", WARPS, sizes))
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
