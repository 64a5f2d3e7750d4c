"""What the memory limit of a GPU is measured with reads all of the memory, and reports bytes over seconds."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.cuda import read_speed
from app.engine.cuda.read_speed import ReadSpeed
from tests.engine.cuda.emulated_device import EmulatedDevice


@pytest.mark.parametrize("build", ["plain", "race"])
@pytest.mark.parametrize("n_bytes", [16, 256 * 37])
def test_every_byte_is_read(build: str, n_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_speed, "LEAST_BYTES", 1)
    device = EmulatedDevice(build, "random")
    values = np.random.default_rng(0).integers(0, 256, n_bytes, np.uint8)
    memory = device.allocate(n_bytes)
    device.write(memory, values)
    assert ReadSpeed(device, memory).total() == values.view(np.uint32).sum(dtype=np.uint32)


def test_a_reading_is_of_several_passes_and_counts_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_speed, "LEAST_BYTES", 1000)
    clock = iter(range(100))
    monkeypatch.setattr(read_speed.time, "perf_counter", lambda: next(clock) * 1e-6)
    device = EmulatedDevice(n_multiprocessors=1)
    reading = ReadSpeed(device, device.allocate(256))
    assert reading.gb_s() == pytest.approx(4 * 256 / 1e-6 / 1e9)  # four passes in a microsecond
