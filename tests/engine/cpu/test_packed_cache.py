"""Weights from the cache are those that were packed, and a file that is not whole is made again."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.engine.cpu import packed_cache, weight_block
from app.engine.cpu.isa import choose
from app.engine.cpu.library import load_kernels
from app.engine.cpu.packed_cache import Draft, PackedCache, cache_folder, forget, kept_weights
from app.engine.cpu.weights import PackedWeights
from app.engine.gguf import read_gguf
from app.engine.spec import ModelSpec

PAGE = packed_cache._PAGE
N_BYTES = 5 * PAGE + 64
MOST = 20 * PAGE


@pytest.fixture(autouse=True)
def own_home(home_with_kernels: Path) -> Path:
    return home_with_kernels


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "some.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def said() -> list[str]:
    return []


def weights_of(seed: int = 0) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, N_BYTES, dtype=np.uint8).tobytes()


def cache_of(model: Path, said: list[str], most: int = MOST, lanes: int = 16, plan: object = "plan") -> PackedCache:
    return PackedCache([model], [plan], lanes, N_BYTES, most, said.append)


def write(cache: PackedCache, weights: bytes) -> None:
    draft = cache.draft()
    assert draft is not None
    half = N_BYTES // 2
    draft.write(memoryview(weights)[half:], half)
    draft.write(memoryview(weights)[:half], 0)
    assert draft.finish()[PAGE:] == weights


def test_what_was_written_is_found_byte_for_byte(model: Path, said: list[str]) -> None:
    assert cache_of(model, said).find() is None
    write(cache_of(model, said), weights_of())
    whole = cache_of(model, said).find()
    assert whole is not None and whole[PAGE:] == weights_of()
    assert said == []
    (kept,) = kept_weights()
    assert (kept.model, kept.n_bytes) == (str(model), PAGE + N_BYTES)
    assert kept.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "change",
    [
        lambda model: os.utime(model, ns=(1, 1)),
        lambda model: model.write_bytes(b"GGUF and more"),
        lambda model: (shutil.copy2(model, model.with_suffix(".copy")), model.with_suffix(".copy").replace(model)),
    ],
    ids=["time", "size", "inode"],
)
def test_another_model_file_under_the_same_name_has_weights_of_its_own(
    model: Path, said: list[str], change: Callable[[Path], object]
) -> None:
    os.utime(model, ns=(5, 5))
    write(cache_of(model, said), weights_of())
    change(model)
    assert cache_of(model, said).find() is None


def test_another_way_of_packing_has_weights_of_its_own(model: Path, said: list[str]) -> None:
    write(cache_of(model, said), weights_of())
    assert cache_of(model, said, lanes=8).find() is None
    assert cache_of(model, said, plan="another").find() is None
    assert cache_of(model, said).find() is not None


def cut(path: Path) -> None:
    os.truncate(path, PAGE + N_BYTES - 1)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def damage(at: int, data: bytes) -> Callable[[Path], None]:
    def overwrite(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)

    return overwrite


@pytest.mark.parametrize(
    "break_it",
    [cut, empty, damage(0, b"X"), damage(40, b"\xff"), damage(3 * PAGE, bytes(PAGE)), damage(0, bytes(PAGE))],
    ids=["cut", "empty", "magic", "head", "a page of zeros", "head of zeros"],
)
def test_a_damaged_file_is_told_of_and_removed(model: Path, said: list[str], break_it: Callable[[Path], None]) -> None:
    write(cache_of(model, said), weights_of())
    break_it(kept_weights()[0].path)
    assert cache_of(model, said).find() is None
    assert said == ["the packed weights on disk were damaged and are made again"]
    assert kept_weights() == []


def test_the_oldest_make_room(tmp_path: Path, said: list[str]) -> None:
    models = []
    for n in range(4):
        models.append(tmp_path / f"{n}.gguf")
        models[n].write_bytes(b"GGUF")
        write(cache_of(models[n], said, most=3 * (PAGE + N_BYTES)), weights_of(n))
        os.utime(kept_weights()[0].path, (1_000 + n, 1_000 + n))
        if n == 2:
            assert cache_of(models[0], said).find() is not None  # used again, so that the second is the oldest
    assert {kept.model for kept in kept_weights()} == {str(models[n]) for n in (0, 2, 3)}


def test_what_does_not_fit_is_not_kept(model: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_of(model, said, most=N_BYTES).draft() is None
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(2 * N_BYTES))
    assert cache_of(model, said).draft() is None
    assert said == []


def test_a_draft_that_is_given_up_leaves_nothing(model: Path, said: list[str]) -> None:
    draft = cache_of(model, said).draft()
    assert draft is not None
    draft.write(memoryview(weights_of()), 0)
    draft.abandon()
    assert list(cache_folder().iterdir()) == []


def test_forgetting_one_model_and_all(tmp_path: Path, said: list[str]) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"GGUF")
        write(cache_of(tmp_path / name, said), weights_of())
    assert [kept.model for kept in forget(tmp_path / "b")] == [str(tmp_path / "b")]
    assert {kept.model for kept in kept_weights()} == {str(tmp_path / "a"), str(tmp_path / "c")}
    Draft(cache_folder() / "left.packed", {}, PAGE)
    assert len(forget()) == 2
    assert list(cache_folder().iterdir()) == []


def test_a_model_from_the_cache_is_the_model_packed_anew(
    tiny_qwen3_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = load_kernels(choose(), print)

    def block(cache_bytes: int) -> bytes:
        with read_gguf(tiny_qwen3_path) as gguf:
            weights = PackedWeights(
                gguf, ModelSpec.from_gguf(gguf), kernels, 2, cache_bytes=cache_bytes, notify=said.append
            )
            return weights._block.tobytes()

    fresh = block(0)
    assert block(1 << 30) == fresh and kept_weights() == []  # too small to be worth it
    assert said == []
    monkeypatch.setattr(weight_block, "LEAST_BYTES", 0)
    assert block(1 << 30) == fresh and len(kept_weights()) == 1
    assert len(said) == 1 and "are kept ('qchat models cache')" in said.pop()  # nothing is put on a disk in silence
    monkeypatch.setattr(weight_block, "_packed_to_memory", None)
    monkeypatch.setattr(weight_block, "_packed_to_disk", None)
    assert block(1 << 30) == fresh
    assert said == []


def test_a_full_disk_is_told_of_and_the_model_runs(
    tiny_qwen3_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(weight_block, "LEAST_BYTES", 0)
    monkeypatch.setattr(Draft, "write", full)
    with read_gguf(tiny_qwen3_path) as gguf:
        kernels = load_kernels(choose(), print)
        weights = PackedWeights(gguf, ModelSpec.from_gguf(gguf), kernels, 2, cache_bytes=1 << 30, notify=said.append)
        assert weights._block.any()
    assert said == ["the packed weights are not kept on disk: No space left on device"]
    assert list(cache_folder().iterdir()) == []
