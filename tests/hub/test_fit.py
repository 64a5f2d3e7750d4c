"""Whether a model fits: the same numbers as `models show`, and the free memory that this process can really have."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.hub.describe import describe
from app.hub.fit import ROOM_BYTES, Fit, free_memory, kv_bytes_per_token

GB = 10**9


def fit(free: int | None, weights: int = 2 * GB, per_token: int = 100_000, context: int = 40_000) -> Fit:
    return Fit(weights, per_token, context, free)


@pytest.mark.parametrize(
    ("free", "verdict", "tokens"),
    [
        (7 * GB, "fits", 40_000),
        (6_420_000_000, "fits", 40_000),
        (6_419_999_999, "tight", 39_999),
        (2_829_600_000, "tight", 4_096),
        (2_829_599_999, "too large", 4_095),
        (1 * GB, "too large", 0),
        (None, "unknown", None),
    ],
)
def test_a_model_fits_is_tight_or_is_too_large(free: int | None, verdict: str, tokens: int | None) -> None:
    assert (fit(free).verdict, fit(free).tokens) == (verdict, tokens)


def test_without_a_known_cache_the_whole_context_fits_or_none_of_it() -> None:
    assert (fit(7 * GB, per_token=0).tokens, fit(1 * GB, per_token=0).tokens) == (40_000, 0)


def test_the_need_is_weights_cache_and_room() -> None:
    assert fit(None).needed(1000) == 2 * GB * 1.06 + ROOM_BYTES + 1000 * 100_000
    assert fit(None).most - fit(None).needed(0) == 40_000 * 100_000
    assert fit(None, context=512).least == fit(None, context=512).most, "a short context is all that can be needed"


@pytest.mark.parametrize(("kv", "number"), [("f32", 4), ("f16", 2), ("q8_0", 34 / 32)])
def test_a_token_takes_what_models_show_says(tiny_qwen3_path: Path, kv: str, number: float) -> None:
    facts = describe(tiny_qwen3_path, kv)
    network = facts["network"]
    by_hand = 2 * network["layers"] * network["kv_heads"] * network["head_dim"] * number
    assert kv_bytes_per_token(network["layers"], network["kv_heads"], network["head_dim"], kv) == by_hand
    assert facts["memory"]["kv_bytes_per_token"] == by_hand


# -- free memory ------------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    write(tmp_path / "proc/meminfo", "MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:    4000 kB\n")
    write(tmp_path / "proc/self/cgroup", "0::/user/chat\n")
    return tmp_path / "proc"


def test_free_memory_is_what_the_system_calls_available(proc: Path, tmp_path: Path) -> None:
    assert free_memory(proc, tmp_path / "no cgroups") == 4000 * 1024


def test_a_limit_of_any_group_above_counts_and_its_page_cache_is_free(proc: Path, tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    write(groups / "user/memory.max", "1000000\n")
    write(groups / "user/memory.current", "700000\n")
    write(groups / "user/memory.stat", "anon 500000\nactive_file 5\ninactive_file 200000\n")
    write(groups / "user/chat/memory.max", "max\n")
    assert free_memory(proc, groups) == 500_000


def test_a_group_without_numbers_of_its_pages_and_one_out_of_sight(proc: Path, tmp_path: Path) -> None:
    groups = tmp_path / "a/groups"
    for folder, most in ((groups / "user", 1_000_000), (tmp_path / "a", 10_000)):  # the second is none
        write(folder / "memory.max", f"{most}\n")
        write(folder / "memory.current", "700000\n")
        write(folder / "memory.stat", "workingset_inactive_file 200000\n")
    assert free_memory(proc, groups) == 300_000


def test_the_first_version_of_control_groups_is_read_too(proc: Path, tmp_path: Path) -> None:
    write(proc / "self/cgroup", "4:cpu,memory:/box\n0::/\n")
    box = tmp_path / "groups/memory/box"
    write(box / "memory.limit_in_bytes", "900000\n")
    write(box / "memory.usage_in_bytes", "1000000\n")
    write(box / "memory.stat", "total_inactive_file 300000\n")
    assert free_memory(proc, tmp_path / "groups") == 200_000
    write(box / "memory.stat", "total_inactive_file 0\n")
    assert free_memory(proc, tmp_path / "groups") == 0


def test_a_system_without_such_numbers_is_not_guessed_at(tmp_path: Path) -> None:
    assert free_memory(tmp_path, tmp_path) is None
    write(tmp_path / "meminfo", "MemTotal:  8000 kB\n")
    write(tmp_path / "self/cgroup", "")
    assert free_memory(tmp_path, tmp_path) is None
