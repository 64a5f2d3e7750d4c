"""Bugs planted one to a kernel: the emulator finds each, names it rightly, and says nothing of its mended form.

A bug is found in every build and by every schedule that its row names; its mended form is silent in all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.cuda_host.build import BUILDS, module_library
from tests.cuda_host.emulator import Emulator, Module
from tests.cuda_host.finding import Finding

PLANTED = Path(__file__).parent / "planted"
ALL, RACE, UNDEFINED, EXACT = tuple(BUILDS), ("race",), ("undefined",), ("undefined", "race")
SCHEDULES = ("warp", "reversed", "random")


@dataclass(frozen=True)
class Bug:
    """`kinds` are those that are right: by some schedules the reader of a race comes before any writer."""

    name: str
    kinds: str
    builds: tuple[str, ...] = ALL
    grid: int = 1
    cooperative: bool = False
    shared_bytes: int = 0
    schedules: tuple[str, ...] = SCHEDULES
    seeds: int = 1  # of which one must find it


BUGS = [
    # barriers.cu
    Bug("barrier_missing", "race uninitialised", RACE),
    Bug("barrier_missing_before_reuse", "race", RACE),
    Bug("barrier_of_a_warp_for_a_block", "race uninitialised", RACE),
    Bug("broadcast_overwritten", "race", RACE),
    Bug("barrier_in_a_branch", "divergent-barrier"),
    Bug("barrier_after_a_return", "divergent-barrier"),
    Bug("two_barriers_in_two_branches", "divergent-barrier"),
    Bug("barrier_in_an_uneven_loop", "divergent-barrier"),
    Bug("a_vote_meets_a_barrier", "divergent-barrier"),
    Bug("barrier_while_another_warp_shuffles", "missing-lane divergent-barrier"),
    # warps.cu
    Bug("syncwarp_missing", "race uninitialised", RACE),
    Bug("shuffle_taken_for_a_barrier", "race", RACE),
    Bug("shuffle_of_half_a_warp", "missing-lane"),
    Bug("lane_outside_its_mask", "lane-not-in-mask"),
    Bug("shuffle_from_outside_the_mask", "missing-lane"),
    Bug("shuffle_from_a_lane_that_returned", "missing-lane"),
    Bug("masks_differ", "divergent-collective"),
    Bug("collectives_differ", "divergent-collective"),
    Bug("width_of_no_power_of_two", "undefined-behaviour"),
    Bug("tensor_core_in_half_a_warp", "missing-lane"),
    Bug("warp_waits_for_a_lane_that_polls", "deadlock"),
    Bug("write_after_the_own_warp_met", "race", RACE),
    Bug("a_reader_writes_what_others_read", "race", RACE),
    Bug("tensor_core_after_a_lane_returned", "missing-lane"),
    Bug("matrix_load_after_a_lane_returned", "missing-lane"),
    Bug("matrix_load_before_the_barrier", "race uninitialised", RACE),
    Bug("matrix_row_at_an_odd_place", "misaligned"),
    # global_memory.cu
    Bug("one_too_many", "out-of-bounds"),
    Bug("one_too_many_inside_the_page", "out-of-bounds"),
    Bug("read_before_the_start", "out-of-bounds", RACE),
    Bug("rows_for_columns", "out-of-bounds"),
    Bug("sum_into_no_value", "uninitialised", RACE),
    Bug("misaligned_vector", "misaligned", UNDEFINED),
    Bug("word_in_a_block_of_34_bytes", "misaligned", EXACT),
    Bug("write_to_weights", "read-only"),
    Bug("null_pointer", "out-of-bounds"),
    Bug("use_after_free", "use-after-free"),
    Bug("blocks_add_to_one_word", "race", RACE, grid=4),
    Bug("every_thread_writes_the_same", "race", RACE),
    Bug("neighbour_read_while_written", "race uninitialised", RACE),
    Bug("read_only_load_of_what_was_written", "read-only-load", RACE),
    Bug("read_only_load_of_what_an_atomic_wrote", "read-only-load", RACE),
    Bug("read_one_too_many_inside_the_page", "out-of-bounds", RACE),
    Bug("write_before_the_start", "out-of-bounds"),
    # shared_memory.cu
    Bug("slot_without_a_value", "uninitialised", RACE),
    Bug("past_a_static_array", "out-of-bounds", UNDEFINED),
    Bug("past_the_dynamic_array", "out-of-bounds", shared_bytes=256),
    Bug("arrays_that_overlap", "race", RACE, shared_bytes=256),
    Bug("floats_after_odd_bytes", "misaligned", UNDEFINED, shared_bytes=256),
    Bug("past_a_local_array", "out-of-bounds", UNDEFINED),
    Bug("too_many_local_variables", "stack-overflow"),
    Bug("slot_of_a_later_block_without_a_value", "uninitialised", RACE, grid=4),
    Bug("read_past_the_dynamic_array", "out-of-bounds", RACE, shared_bytes=256),
    Bug("byte_of_a_word_that_another_writes", "race", RACE),
    Bug("word_of_bytes_that_others_write", "race uninitialised", RACE),
    # undefined.cu
    Bug("index_that_overflows", "undefined-behaviour", UNDEFINED),
    Bug("shift_by_all_bits", "undefined-behaviour", UNDEFINED),
    Bug("division_by_zero", "undefined-behaviour"),
    Bug("difference_that_overflows", "undefined-behaviour", UNDEFINED),
    Bug("sum_that_overflows", "undefined-behaviour", UNDEFINED),
    Bug("negation_that_overflows", "undefined-behaviour", UNDEFINED),
    Bug("bool_that_holds_another_number", "undefined-behaviour", UNDEFINED),
    Bug("pointer_round_the_address_space", "undefined-behaviour", UNDEFINED),
    Bug("place_that_cannot_be_reached", "undefined-behaviour", UNDEFINED),
    Bug("leading_zeros_of_nothing", "undefined-behaviour", UNDEFINED),
    # atomics.cu
    Bug("counter_without_an_atomic", "race", RACE),
    Bug("count_read_too_early", "race", RACE),
    Bug("count_cleared_too_late", "race uninitialised", RACE),
    Bug("misaligned_atomic", "misaligned"),
    Bug("flag_without_a_fence_before", "race", RACE, grid=2, cooperative=True),
    Bug("flag_without_a_fence_after", "race", RACE, grid=2, cooperative=True),
    Bug("fence_of_a_block_for_the_device", "race", RACE, grid=2, cooperative=True),
    Bug("flag_with_a_relaxed_load", "race", RACE, grid=2, cooperative=True),
    Bug("flag_with_a_relaxed_store", "race", RACE, grid=2, cooperative=True),
    Bug("last_block_without_a_fence", "race", RACE, grid=4),
    Bug("published_before_the_warp_met", "race uninitialised", RACE, grid=2, cooperative=True),
    Bug("lock_without_order", "race", RACE, grid=4),
    Bug("locks_in_opposite_order", "deadlock", grid=4, cooperative=True),
    Bug("lock_that_is_kept", "deadlock", grid=4),
    Bug("count_read_after_the_own_warp_met", "race", RACE),
    Bug("counter_without_a_first_value", "uninitialised", RACE),
    # flags.cu
    Bug("count_read_after_a_relaxed_flag", "race", RACE, grid=2, cooperative=True),
    Bug("atomic_on_a_word_that_was_read", "race", RACE, grid=2, cooperative=True),
    Bug("flag_in_a_volatile_word_without_a_fence", "race", RACE, grid=2, cooperative=True),
    Bug("flag_stored_over_by_another_block", "race", RACE, grid=3, cooperative=True),
    Bug("writer_waits_for_one_reader_of_two", "race", RACE, grid=3, cooperative=True),
    # grids.cu
    Bug("grid_barrier_without_leading_barrier", "race uninitialised", RACE, grid=4, cooperative=True),
    Bug("grid_barrier_without_trailing_barrier", "race uninitialised", RACE, grid=4, cooperative=True),
    Bug("grid_barrier_never_reset", "deadlock", grid=4, cooperative=True),
    Bug("grid_barrier_without_fences", "race", RACE, grid=4, cooperative=True),
    Bug("grid_barrier_without_a_release_fence", "race", RACE, grid=4, cooperative=True),
    Bug("grid_barrier_without_atomic_arrival", "race", RACE, grid=4, cooperative=True),
    Bug(
        "grid_barrier_that_reads_its_generation_late",
        "deadlock",
        grid=4,
        cooperative=True,
        schedules=("random",),
        seeds=16,
    ),
    Bug("grid_barrier_that_waits_for_one_more", "deadlock", grid=4, cooperative=True),
    Bug("grid_barrier_polled_by_plain_loads", "deadlock", grid=4, cooperative=True),
    Bug("block_barrier_for_a_grid_barrier", "race uninitialised", RACE, grid=4, cooperative=True),
    Bug("block_that_skips_the_grid_barrier", "deadlock", grid=4, cooperative=True),
    Bug("block_that_skips_the_grid_sync", "deadlock", grid=4, cooperative=True),
    Bug("warp_that_skips_the_grid_sync", "divergent-barrier", grid=4, cooperative=True),
    Bug("wait_for_a_block_that_is_not_resident", "deadlock", grid=4, schedules=("warp",)),
    Bug("grid_sync_of_a_plain_launch", "launch", grid=4),
    # async_copies.cu
    Bug("copy_read_before_it_arrived", "async-copy", RACE),
    Bug("copy_waited_for_by_its_own_thread_only", "async-copy race uninitialised", RACE),
    Bug("one_group_too_many_left", "async-copy", RACE),
    Bug("return_with_a_copy_under_way", "async-copy"),
    Bug("misaligned_copy", "misaligned"),
    Bug("copy_to_an_odd_place", "misaligned"),
    Bug("copy_of_more_bytes_than_its_size", "undefined-behaviour"),
]


@cache
def library(build: str) -> Path:
    return module_library(PLANTED / "all.cu", build)


@cache
def marked_lines() -> dict[str, str]:
    """ "file:line" of each `// here: name`."""
    lines = {}
    for path in PLANTED.glob("*.cu"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if marked := re.search(r"// here: (\w+)", line):
                lines[marked[1]] = f"{path.name}:{number}"
    return lines


def run(bug: Bug, form: str, build: str, schedule: str, seed: int = 0) -> Finding | None:
    device = Emulator(build, schedule, seed, stall_s=0.1, limit_s=60)
    n = 256
    inputs = device.upload(np.arange(n, dtype=np.float32), "in", read_only=True)
    out = device.allocate(n * 4, "out", np.float32)
    words = device.upload(np.zeros(13, np.uint32), "words")
    freed = device.allocate(n * 4, "freed")
    device.free(freed)
    if bug.name == "use_after_free":
        device.write(words, np.array([freed.address], np.uint64))
    module = Module(device, library(build))
    try:
        module.launch(
            f"{bug.name}_{form}",
            (bug.grid,),
            (64,),
            [inputs, out, words, np.int32(n)],
            shared_bytes=bug.shared_bytes,
            cooperative=bug.cooperative,
        )
    except Finding as finding:
        return finding
    finally:
        device.close()
    return None


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_is_found(bug: Bug) -> None:
    for build in bug.builds:
        for schedule in bug.schedules:
            found = [run(bug, "bug", build, schedule, seed) for seed in range(bug.seeds)]
            finding = next((finding for finding in found if finding), None)
            assert finding, f"{build} {schedule}: nothing"
            assert finding.kind in bug.kinds.split(), f"{build} {schedule}: {finding}"
            assert finding.kernel == f"{bug.name}_bug"
            assert "the launch took more than" not in finding.text  # it was seen, and did not only take too long
            if finding.thread:  # else it was seen after the launch
                assert finding.places, f"{build} {schedule}: {finding}"
                line = marked_lines().get(bug.name, "")
                assert re.search(rf"{line}\b", str(finding)), f"{build} {schedule}: {finding}"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_mended_form_is_silent(bug: Bug) -> None:
    for build in BUILDS:
        for schedule in SCHEDULES:
            assert run(bug, "mended", build, schedule) is None


def test_every_planted_kernel_is_run_and_most_mark_their_line() -> None:
    names = {
        kernel.removesuffix("_bug").removesuffix("_mended") for kernel in Module(Emulator(), library("plain")).kernels
    }
    assert names == {bug.name for bug in BUGS}
    assert marked_lines().keys() <= names
    assert len(marked_lines()) > len(names) // 2
