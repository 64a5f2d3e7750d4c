"""What the benches count and compare: a wrong figure there would be believed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import native_llama_cpp
import peer_llama_cpp
import pytest
from participant import Reading, Speeds, take_turns
from peers import rows
from weights_read import BytesRead, bytes_read

from app.engine.gguf import read_gguf
from tests.gguf_files import make_model

SHAPE = {"n_layers": 2, "n_kv_heads": 2, "head_dim": 64}


def stored(path: Path, *without: str) -> int:
    with read_gguf(path) as gguf:
        return sum(t.n_bytes for name, t in gguf.tensors.items() if name not in without)


def test_an_embedding_counts_only_where_it_is_the_head(tmp_path: Path) -> None:
    tied = make_model(head="tied", **SHAPE).write(tmp_path / "tied.gguf")
    own = make_model(head="own", **SHAPE).write(tmp_path / "own.gguf")
    assert bytes_read(tied).weights == stored(tied)
    assert bytes_read(own).weights == stored(own, "token_embd.weight") < stored(own)


def test_the_cache_of_a_token_is_two_f16_rows_of_every_kv_head(tmp_path: Path) -> None:
    read = bytes_read(make_model(**SHAPE).write(tmp_path / "model.gguf"))
    assert read.cache_token == 2 * 2 * 2 * 64 * 2
    assert read.at(10) == read.weights + 10 * read.cache_token


def test_ratios_are_of_pairs_and_shares_of_the_limit_of_the_moment() -> None:
    peer = [Reading(Speeds(100, 10), 5.0), Reading(Speeds(300, 30), 10.0), Reading(Speeds(200, 20), 40.0)]
    ours = [Reading(Speeds(200, 30), 5.0), Reading(Speeds(900, 60), 10.0), Reading(Speeds(100, 100), 40.0)]
    *_, first, second = rows([peer, ours], ["peer", "ours"], BytesRead(100_000_000, 0), 0)
    assert first.split() == ["peer", "200.0", "300.0", "1.00", "20.0", "30.0", "1.00", "20%"]
    assert second.split() == ["ours", "200.0", "900.0", "2.00", "60.0", "100.0", "3.00", "60%"]


def test_participants_take_turns_and_the_limit_is_the_better_one_around_a_turn() -> None:
    order, limits = [], iter([1.0, 5.0, 4.0, 2.0])

    class One:
        def __init__(self, name: str) -> None:
            self.name = name

        def measure(self, depth: int) -> Speeds:
            order.append((self.name, depth))
            return Speeds(1, 1)

        def close(self) -> None: ...

    readings = take_turns([One("a"), One("b")], 1, 7, lambda: next(limits))
    assert order == [("a", 7), ("b", 7)]
    assert [[one.limit for one in taken] for taken in readings] == [[5.0], [4.0]]


def llama_bench(path: Path, body: str) -> Path:
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    path.chmod(0o755)
    return path


def test_llama_bench_is_asked_for_the_depth_and_its_two_speeds_are_told_apart(tmp_path: Path) -> None:
    answer = json.dumps([{"avg_ts": 500.0, "n_prompt": 512}, {"avg_ts": 40.0, "n_gen": 128}])
    program = llama_bench(tmp_path / "bench", f"assert sys.argv[-2:] == ['-d', '16']\nprint({answer!r})")
    assert peer_llama_cpp.LlamaBench(program, tmp_path / "m.gguf", 2).measure(16) == Speeds(500.0, 40.0)


def test_a_llama_bench_that_fails_ends_the_run_with_what_it_said(tmp_path: Path) -> None:
    program = llama_bench(tmp_path / "bench", "sys.exit('no such model')")
    with pytest.raises(SystemExit, match="llama-bench ended with 1: no such model"):
        peer_llama_cpp.LlamaBench(program, tmp_path / "m.gguf", 2).measure(0)


def test_a_source_that_has_changed_is_not_patched_in_the_wrong_place(tmp_path: Path) -> None:
    source = tmp_path / "mmq.cpp"
    source.write_text(f"void init() {{\n    {native_llama_cpp.LOAD}\n}}\n")
    native_llama_cpp._patch(source)
    assert source.read_text().index(native_llama_cpp.BARRIER) < source.read_text().index(native_llama_cpp.LOAD)
    source.write_text("void init() { load_tiles(); }\n")
    with pytest.raises(SystemExit, match="0 times, expected once"):
        native_llama_cpp._patch(source)
