"""`bench/gpu.py` from its first line to its last, on the emulator: no line of it is first run on a card."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.engine.cuda import read_speed
from app.engine.cuda.device import Buffer
from app.engine.formats import FORMATS, GGMLType, dequantise
from app.errors import CudaUnavailableError
from bench import gpu, gpu_checks
from bench.gpu import Extent
from bench.gpu_checks import Case
from bench.gpu_speed import Sizes
from bench.random_rows import RandomRows
from tests.engine.cuda.emulated_device import WARPS, EmulatedDevice

TINY = {"n_layers": 1, "d_model": 256, "d_ff": 512, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 200, "tied_head": True}
EXTENT = Extent(
    cases=[Case("Q8_0", {"types": "Q8_0", "n_layers": 1})],
    steps=(1, 9),
    read_bytes=4096,
    shapes={"tiny": TINY, "own": TINY | {"tied_head": False}},
    sizes=Sizes(copy_bytes=4096, prompt=9, steps=2, repetitions=1, n_ctx=128),
    decoder={"warps": WARPS},
)


@pytest.fixture(autouse=True)
def one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_speed, "LEAST_BYTES", 1)


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "results.json"


def nobody_leaves(code: int) -> None:
    raise AssertionError(code)


def run(to: Path, *arguments: str, extent: Extent = EXTENT, **options: Any) -> tuple[int, dict[str, Any]]:
    """The exit code and what was written."""
    given = {"open_device": EmulatedDevice, "leave": nobody_leaves} | options
    code = gpu.main(["--json", str(to), *arguments], extent=extent, **given)
    return code, json.loads(to.read_text())


def test_the_whole_script(to: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = run(to)
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert facts["gpu"]["name"] == "emulator" and facts["left_out"] == {} and facts["hung"] is None
    assert facts["checks"] == dict.fromkeys(
        [
            "reading: NumPy's sum",
            "copying: the same bytes",
            "a trained model: the CPU engine's bits, one launch",
            "a trained model: the CPU engine's bits, a launch a phase",
            "a trained model: the CPU engine's tokens, drawn by the GPU",
            "a trained model: right guesses are kept by the GPU",
            "Q8_0: NumPy's bits, one launch",
            "Q8_0: NumPy's bits, a launch a phase",
        ],
        True,
    )
    assert out.count(" s  right  ") == 8
    assert facts["copy_gb_s"] > 0 and re.search(r"^copying: \d+ GB/s read and written$", out, re.MULTILINE)
    models = [(speed["shape"], speed["format"]) for speed in facts["speeds"]]
    assert models == [(shape, kind) for shape in ("tiny", "own") for kind in ("Q8_0", "Q4_K")]
    for speed in facts["speeds"]:
        assert list(speed["persistent_s"]) == list(speed["graph_s"]) == ["1", "2", "4", "8"]
        assert all(seconds > 0 for times in ("persistent_s", "graph_s") for seconds in speed[times].values())
        assert list(speed["alone_s"]) == ["1"] and speed["alone_s"]["1"] > 0
        best = min(speed[times]["1"] for times in ("persistent_s", "graph_s", "alone_s"))
        assert speed["decode_tok_s"] == pytest.approx(1 / best)
        assert speed["share_of_reading"] == pytest.approx(speed["gigabytes"] / best / speed["read_gb_s"])
        assert speed["prompt_tok_s"] > 0 and speed["load_s"] > 0
    assert facts["speeds"][2]["gigabytes"] == pytest.approx(facts["speeds"][0]["gigabytes"])  # a head, tied or not
    table = out[out.index("tokens/s") :].splitlines()[1:]
    number = r"\d+\.\d\d"
    four = f"{number}( {number}){{3}}"
    row = rf"(tiny  |own   )(Q8_0|Q4_K) +\d+\.\d +\d+% +\d+ +\d+   {four} \| {four} \| {number}"
    assert len(table) == 4 and all(re.fullmatch(row, line) for line in table)


def test_a_card_without_cooperative_launches_has_only_the_graph(to: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = run(
        to, "--shapes", "tiny", "--formats", "Q8_0", open_device=lambda: EmulatedDevice(cooperative=False)
    )
    assert code == 0
    assert [check for check in facts["checks"] if "one launch" in check] == []
    assert [check for check in facts["checks"] if "by the GPU" in check] == []
    assert facts["speeds"][0]["persistent_s"] == facts["speeds"][0]["alone_s"] == {}
    assert " none | " in capsys.readouterr().out


def test_a_wrong_result_ends_the_run_before_any_speed(
    to: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = gpu_checks.reference_logits
    monkeypatch.setattr(gpu_checks, "reference_logits", lambda *a: np.nextafter(right(*a), np.float32(9)))
    code, facts = run(to)
    assert code == 1 and facts["speeds"] == [] and facts["copy_gb_s"] is None
    out, err = capsys.readouterr()
    assert "WRONG  Q8_0: NumPy's bits, one launch" in out
    assert "WRONG: Q8_0: NumPy's bits, one launch" in err


def test_when_the_time_is_over_the_rest_is_left_out_by_name(to: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = run(to, "--formats", "Q8_0", extent=replace(EXTENT, soft_s=-1.0))
    assert code == 1
    assert list(facts["left_out"]) == [
        "check of reading and copying", "check of a trained model", "check of greedy decoding", "check of Q8_0",
        "copying", "tiny Q8_0", "own Q8_0",
    ]  # fmt: skip
    assert "LEFT OUT: tiny Q8_0: " in capsys.readouterr().out


def test_a_model_that_does_not_fit_is_left_out_by_name(to: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Small(EmulatedDevice):
        def allocate(self, n_bytes: int) -> Buffer:
            if n_bytes > 8 << 20:
                raise MemoryError
            return super().allocate(n_bytes)

    shapes = {"large": TINY | {"vocab_size": 40_000}, "tiny": TINY}
    code, facts = run(to, "--formats", "Q8_0", extent=replace(EXTENT, cases=[], shapes=shapes), open_device=Small)
    assert code == 1
    assert [speed["shape"] for speed in facts["speeds"]] == ["tiny"]
    assert facts["left_out"] == {"large Q8_0": "more than the 4.3 GB that are free"}
    assert "LEFT OUT: large Q8_0: more than" in capsys.readouterr().out


def test_what_hangs_is_ended_and_what_was_found_is_kept(
    to: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left = threading.Event()
    codes = []

    def leave(code: int) -> None:
        codes.append(code)
        kept.update(json.loads(to.read_text()))
        left.set()

    def hangs(*_: Any) -> Iterator[tuple[str, bool]]:
        yield "before", True
        left.wait(20)

    kept: dict[str, Any] = {}
    monkeypatch.setattr(gpu, "check_reading", hangs)
    run(to, "--formats", "Q8_0", extent=replace(EXTENT, cases=[], shapes={}, hard_s=0.2), leave=leave)
    assert codes == [1]
    assert kept["hung"] == "check of reading and copying" and kept["checks"] == {"before": True}
    assert "HUNG: check of reading and copying had not ended after" in capsys.readouterr().err


def test_a_machine_without_a_gpu_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    def none() -> EmulatedDevice:
        raise CudaUnavailableError("no driver: get one")

    assert gpu.main([], open_device=none) == 1
    assert capsys.readouterr() == ("", "no driver: get one\n")


@pytest.fixture(scope="module")
def random_values() -> Callable[[GGMLType, int], np.ndarray[Any, Any]]:
    device = EmulatedDevice()
    maker = RandomRows(device)

    def values(kind: GGMLType, columns: int) -> np.ndarray[Any, Any]:
        rows, n_bytes = 8, 8 * columns // FORMATS[kind].block * FORMATS[kind].n_bytes
        target, stored = device.allocate(n_bytes), np.zeros(n_bytes, np.uint8)
        maker.make(target, kind, columns, rows)
        device.read(target, stored)
        return dequantise(stored.reshape(rows, -1), kind, columns)

    return values


@pytest.mark.parametrize("kind", FORMATS)
def test_weights_made_on_the_card_are_sane_in_every_format(
    kind: GGMLType, random_values: Callable[[GGMLType, int], np.ndarray[Any, Any]]
) -> None:
    weights = random_values(kind, 4096)
    assert np.isfinite(weights).all()
    assert 0.6 < weights.std() * 4096**0.5 < 1.6  # a product is about as large as what comes in
    assert abs(weights.mean()) < 0.15 * weights.std()
    assert not np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights, random_values(kind, 4096))  # no two matrices are the same
