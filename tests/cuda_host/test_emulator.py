"""The emulator's arithmetic and collectives give NumPy's values, in every build and by every schedule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cuda_host.build import BUILDS
from tests.cuda_host.emulator import SCHEDULES, Emulator, Module

VALUES = Path(__file__).parent / "values.cu"


def loaded(build: str, schedule: str = "warp", seed: int = 0) -> tuple[Emulator, Module]:
    device = Emulator(build, schedule, seed)
    return device, device.module(VALUES)


def test_conversions_round_as_numpy_does() -> None:
    device, module = loaded("plain")
    random, n = np.random.default_rng(0), 1 << 16
    special = [0, -0.0, 65504, 65519.9, 65520, 1e9, np.inf, -np.inf, 5.96e-8, 2.98e-8, 2.9802322e-8, 2.99e-8, 6.1e-5]
    spread = random.standard_normal(n - len(special)) * 10.0 ** random.integers(-9, 6, n - len(special))
    floats = np.concatenate([spread, special]).astype(np.float32)
    halves = np.arange(n, dtype=np.uint16).view(np.float16)
    to_half, to_bfloat = device.allocate(2 * n, "half", np.float16), device.allocate(2 * n, "bfloat")
    from_half = device.allocate(4 * n, "float", np.float32)
    inputs = device.upload(floats), device.upload(halves)
    module.launch("convert", (n // 256,), (256,), [inputs[0], to_half, to_bfloat, inputs[1], from_half, np.int32(n)])
    with np.errstate(over="ignore"):
        assert np.array_equal(device.read(to_half), floats.astype(np.float16))
    assert np.array_equal(device.read(from_half), halves.astype(np.float32), equal_nan=True)
    bits = floats.view(np.uint32).astype(np.uint64)
    assert np.array_equal(device.read(to_bfloat, np.uint16), (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_collectives(build: str, schedule: str) -> None:
    device, module = loaded(build, schedule)
    words = np.array([0x7F80FF01, 0x02FE0380], np.uint32).view(np.int32)
    out = device.allocate(64 * 12 * 4, "out", np.int32)
    module.launch("collectives", (1,), (64,), [out, device.upload(words, "words")])
    lane = np.arange(64) % 32
    signed = words.view(np.int8).astype(int)
    expected = [
        int(np.uint32(sum(1 << i for i in range(0, 32, 3))).view(np.int32)),
        np.maximum(lane - 1, 0),
        np.where(lane % 8 < 6, lane + 2, lane),
        (lane // 8 * 8 + 3) * 10,
        lane ^ 16,
        3,
        1,
        10,
        sum(range(64)),
        7 + int(signed[:4] @ signed[4:]),
        sum(range(32)),
        0x02037FFF,
    ]
    columns = [np.broadcast_to(column, 64) for column in expected]
    assert np.array_equal(device.read(out).reshape(64, 12), np.stack(columns, 1))


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_blocks_that_meet_through_memory(build: str, schedule: str) -> None:
    device, module = loaded(build, schedule, seed=1)
    random = np.random.default_rng(1)
    values = random.integers(0, 16, 300).astype(np.int32)
    counts = device.upload(np.zeros(16, np.uint32), "counts")
    module.launch("histogram", (3,), (64,), [counts, device.upload(values), np.int32(300)], shared_bytes=64)
    assert np.array_equal(device.read(counts), np.bincount(values, minlength=16))

    x = random.integers(-50, 50, 500).astype(np.float32)
    parts, finished = device.allocate(24, "parts", np.float32), device.upload(np.zeros(1, np.uint32), "finished")
    total = device.allocate(4, "sum", np.float32)
    module.launch("sum_of_all", (6,), (32,), [device.upload(x), parts, finished, total, np.int32(500)])
    assert device.read(total)[0] == x.sum()

    cells, barrier = device.upload(np.zeros(5, np.int32), "cells"), device.upload(np.zeros(2, np.uint32), "barrier")
    module.launch("rounds", (5,), (32,), [cells, barrier, np.int32(7)], cooperative=True)
    assert device.read(cells).tolist() == [7] * 5


@pytest.mark.parametrize("build", BUILDS)
def test_tensor_core_product(build: str) -> None:
    device, module = loaded(build)
    random = np.random.default_rng(2)
    a, b = random.integers(-128, 128, (16, 32)).astype(np.int8), random.integers(-128, 128, (8, 32)).astype(np.int8)
    d = device.allocate(16 * 8 * 4, "d", np.int32)
    words = [device.upload(matrix.view(np.uint32), name) for matrix, name in ((a, "a"), (b, "b"))]
    module.launch("tensor_product", (1,), (32,), [*words, d])
    assert np.array_equal(device.read(d).reshape(16, 8), a.astype(int) @ b.astype(int).T)
