"""The emulator's arithmetic and collectives give NumPy's values, in every build and by every schedule."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from tests.cuda_host.build import BUILDS
from tests.cuda_host.emulator import SCHEDULES, Emulator, Module
from tests.cuda_host.finding import Finding

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


@pytest.mark.parametrize("build", BUILDS)
def test_matrix_loads_and_copies_that_are_filled_with_zeros(build: str) -> None:
    device, module = loaded(build)
    rows = np.arange(32 * 8, dtype=np.uint16).reshape(4, 8, 8)
    out, filled = device.allocate(4 * 32 * 4, "out", np.uint32), device.allocate(32 * 16, "filled", np.uint32)
    module.launch("matrices", (1,), (32,), [device.upload(rows.view(np.uint32), "rows"), out, filled])
    assert np.array_equal(device.read(out).view(np.uint16).reshape(4, 8, 8), rows)  # lane 4 r + c: pair c of row r
    words = np.zeros((32, 4), np.uint32)
    words[:, 0] = rows.view(np.uint32).reshape(32, 4)[:, 0]
    assert np.array_equal(device.read(filled).reshape(32, 4), words)


def test_atomics() -> None:
    device, module = loaded("race")
    olds = np.array([0, 5, 7, 9, 0xFFFFFFFF, 0x80000000, 100, 7], np.uint32)
    values = np.array([3, 5, 7, 4, 1, 0x7FFFFFFF, 0xF0, 0], np.uint32)
    words, before = device.upload(np.tile(olds, 10), "words"), device.allocate(10 * 8 * 4, "olds", np.uint32)
    module.launch("atomics", (1,), (1,), [words, device.upload(values, "values"), before, np.int32(8)])
    assert np.array_equal(device.read(before), np.tile(olds, 10))
    expected = [
        olds + values, olds - values, np.maximum(olds, values), np.minimum(olds, values), olds & values, olds | values,
        olds ^ values, np.where(olds >= values, 0, olds + 1), np.where((olds == 0) | (olds > values), values, olds - 1),
        np.where(olds == 7, values, olds),
    ]  # fmt: skip
    assert np.array_equal(device.read(words).reshape(10, 8), np.stack(expected).astype(np.uint32))


def bits(x: int) -> str:
    return f"{x:032b}"


def bytes_chosen(x: int, y: int) -> int:
    """Each of four selectors in x ^ y names one of eight bytes, or its sign eight times."""
    eight, result = (y << 32 | x).to_bytes(8, "little"), 0
    for i in range(4):
        selector = (x ^ y) >> 4 * i & 15
        byte = eight[selector & 7]
        result |= ((255 if byte & 128 else 0) if selector & 8 else byte) << 8 * i
    return result


def test_integers() -> None:
    device, module = loaded("undefined")
    a, b = np.random.default_rng(4).integers(0, 1 << 32, (2, 64), dtype=np.uint32)
    a[:4], b[:4] = (0, 1, 0x80000000, 0xFFFFFFFF), (0xFFFFFFFF, 32, 0x80000000, 31)
    out = device.allocate(12 * 64 * 4, "out", np.uint32)
    module.launch("integers", (1,), (64,), [device.upload(a, "a"), device.upload(b, "b"), out])
    quads = a.view(np.uint8).reshape(-1, 4), b.view(np.uint8).reshape(-1, 4)
    both, shift = b.astype(object) << 32 | a.astype(object), b.astype(object) % 32
    signed = a.view(np.int32).astype(object), b.view(np.int32).astype(object)
    expected = [
        (quads[0] + quads[1]).view(np.uint32)[:, 0],
        (quads[0] - quads[1]).view(np.uint32)[:, 0],
        (both << shift >> 32) % (1 << 32),
        (both >> shift) % (1 << 32),
        (signed[0] * signed[1] >> 32) % (1 << 32),
        a.astype(object) * b.astype(object) >> 32,
        [int(bits(x)[::-1], 2) for x in a.tolist()],
        [bits(x).count("1") for x in a.tolist()],
        [32 - x.bit_length() for x in a.tolist()],
        [bits(x)[::-1].find("1") + 1 for x in a.tolist()],
        [bytes_chosen(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)],
        (quads[0].astype(np.uint32) * quads[1]).sum(axis=1) + 5,
    ]
    got = device.read(out).reshape(12, 64)
    for row, wanted in enumerate(expected):
        assert got[row].tolist() == [int(x) for x in wanted], row


def test_whole_numbers_of_floats() -> None:
    device, module = loaded("undefined")
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.7, 2.7, 1e10, -1e10, 3e9, np.inf, -np.inf, np.nan], np.float32)
    out = device.allocate(6 * len(x) * 4, "out", np.int32)
    module.launch("whole_numbers", (1,), (len(x),), [device.upload(x, "x"), out])
    rounded = [np.rint(x), np.trunc(x), np.floor(x), np.ceil(x)]
    with np.errstate(invalid="ignore"):
        signed = [np.clip(np.nan_to_num(y, nan=0.0).astype(np.float64), -(2**31), 2**31 - 1) for y in rounded]
        unsigned = [np.clip(np.nan_to_num(y, nan=0.0).astype(np.float64), 0, 2**32 - 1) for y in rounded[:2]]
    got = device.read(out).reshape(6, -1)
    assert np.array_equal(got[:4], np.stack(signed).astype(np.int64))
    assert np.array_equal(got[4:].view(np.uint32), np.stack(unsigned).astype(np.int64))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_shared_memory_of_every_block_begins_without_a_value(schedule: str) -> None:
    device, module = loaded("plain", schedule)
    out = device.allocate(9 * 4, "out", np.float32)
    module.launch("unset", (9,), (1,), [out])
    assert np.isnan(device.read(out)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_lanes_that_have_returned_are_not_waited_for(schedule: str) -> None:
    device, module = loaded("plain", schedule)
    out = device.upload(np.zeros(32, np.int32), "out")
    module.launch("leavers", (1,), (32,), [out])
    assert device.read(out).tolist() == [20] * 20 + [0] * 12


def test_what_the_host_has_not_written_has_no_value() -> None:
    device, module = loaded("race")
    words, out = device.allocate(64, "words", np.uint32), device.allocate(64, "out", np.uint32)
    device.write(words, np.arange(8, dtype=np.uint32))
    module.launch("copy_words", (1,), (8,), [words, out])
    assert device.read(out)[:8].tolist() == list(range(8))
    with pytest.raises(Finding, match="byte 32 of the 64-byte buffer 'words', which has no value"):
        module.launch("copy_words", (1,), (9,), [words, out])


def test_a_thread_that_gives_no_other_a_turn_ends_long_before_the_launch_would() -> None:
    device = Emulator("plain", "warp", stall_s=0.1, limit_s=20)
    begun = time.process_time()
    with pytest.raises(Finding, match=r"ran for 0\.1 s of processor time without giving another thread a turn"):
        device.module(VALUES).launch("wait", (1,), (2,), [device.upload(np.zeros(1, np.uint32), "words")])
    assert time.process_time() - begun < 10


def test_a_launch_that_never_ends() -> None:
    device = Emulator("plain", "warp", limit_s=0.2)
    with pytest.raises(Finding, match=r"deadlock .*the launch took more than 0\.2 s of processor time"):
        device.module(VALUES).launch("for_ever", (1,), (2,), [device.upload(np.zeros(1, np.uint32), "words")])
