"""Each schedule runs threads in an order of its own, as docs/cuda-emulator.md says, and the same one at every run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.cuda_host.emulator import Emulator

VALUES = Path(__file__).parent / "values.cu"

# (schedule, seed, cooperative): five blocks of one thread, which look at memory twice
LOOKS = {
    ("warp", 1, True): [0, 1, 2, 3, 4, 0, 1, 2, 3, 4],
    ("warp", 1, False): [0, 0, 1, 1, 2, 2, 3, 3, 4, 4],
    ("reversed", 1, True): [4, 3, 2, 1, 0, 4, 3, 2, 1, 0],
    ("reversed", 1, False): [4, 4, 3, 3, 2, 2, 1, 1, 0, 0],
    ("round-robin", 1, True): [0, 1, 2, 3, 4, 0, 1, 2, 3, 4],
    ("round-robin", 1, False): [0, 1, 2, 3, 0, 1, 2, 3, 4, 4],
    ("block-ahead", 0, True): [0, 0, 1, 2, 3, 4, 1, 2, 3, 4],
    ("block-ahead", 1, True): [3, 3, 4, 0, 1, 2, 4, 0, 1, 2],
    ("block-behind", 0, True): [1, 2, 3, 4, 1, 2, 3, 4, 0, 0],
    ("block-behind", 1, True): [4, 0, 1, 2, 4, 0, 1, 2, 3, 3],
}
# three blocks of two warps, whose lanes meet twice
STRETCHES = {
    "warp": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
    "reversed": [5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0],
    "round-robin": [0, 3, 4, 1, 2, 5, 0, 3, 4, 1, 2, 5],  # a block for 32 turns, then the next
    "block-ahead": [2, 2, 3, 3, 4, 4, 5, 5, 0, 0, 1, 1],
    "block-behind": [4, 4, 5, 5, 0, 0, 1, 1, 2, 2, 3, 3],
}


def order(kernel: str, blocks: int, threads: int, schedule: str, seed: int, cooperative: bool) -> list[int]:
    device = Emulator("plain", schedule, seed)
    found = device.upload(np.full(16, -1, np.int32), "order")
    arguments = [found, device.upload(np.zeros(1, np.uint32), "next")]
    device.module(VALUES).launch(kernel, (blocks,), (threads,), arguments, cooperative=cooperative)
    return [number for number in device.read(found).tolist() if number >= 0]


@pytest.mark.parametrize(("schedule", "seed", "cooperative"), LOOKS)
def test_threads_that_look_at_memory(schedule: str, seed: int, cooperative: bool) -> None:
    assert order("looks", 5, 1, schedule, seed, cooperative) == LOOKS[schedule, seed, cooperative]


@pytest.mark.parametrize("schedule", STRETCHES)
def test_warps_that_meet(schedule: str) -> None:
    assert order("stretches", 3, 64, schedule, 1, True) == STRETCHES[schedule]


@pytest.mark.parametrize(("kernel", "blocks", "threads"), [("looks", 5, 1), ("stretches", 1, 64), ("stretches", 3, 64)])
def test_the_random_schedule_is_drawn_from_its_seed(kernel: str, blocks: int, threads: int) -> None:
    orders = [order(kernel, blocks, threads, "random", seed, False) for seed in range(20)]
    assert orders == [order(kernel, blocks, threads, "random", seed, False) for seed in range(20)]
    assert len({tuple(found) for found in orders}) > 4
    assert len({found[0] for found in orders}) > 1


def test_the_random_schedule_goes_from_block_to_block() -> None:
    orders = [order("stretches", 3, 64, "random", seed, False) for seed in range(20)]
    changes = [sum(one // 2 != other // 2 for one, other in pairwise(found)) for found in orders]
    assert max(changes) > 4  # two, where one block after the other runs to its end
