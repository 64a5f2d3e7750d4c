"""`qchat bench` measures whatever device the model was loaded on; the GPU here is the emulator."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from app.cli import bench as bench_command
from app.cli import bench_tasks, run
from app.engine import benchmark, model
from app.engine.cuda import read_speed
from app.engine.cuda.decoder import CudaDecoder
from app.errors import CudaUnavailableError
from tests.conftest import DATA
from tests.engine.cuda.emulated_device import WARPS, EmulatedDevice
from tests.engine.cuda.test_decoder import HEAD_DIM
from tests.gguf_files import write_model

pytestmark = pytest.mark.usefixtures("home_with_kernels")


@pytest.fixture
def small_model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "small.gguf", head_dim=HEAD_DIM, n_layers=1, context_length=1024)


@pytest.fixture
def emulated_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU for `load_model`, and measurements that an emulator can end."""
    monkeypatch.setattr(model, "open_gpu", EmulatedDevice)
    monkeypatch.setattr(model, "CudaDecoder", partial(CudaDecoder, warps=WARPS))
    monkeypatch.setattr("app.engine.cuda.find.open_gpu", EmulatedDevice)
    monkeypatch.setattr(benchmark, "PROMPT_TOKENS", 12)
    monkeypatch.setattr(benchmark, "GENERATED_TOKENS", 3)
    monkeypatch.setattr(read_speed, "LEAST_BYTES", 1)


@pytest.mark.usefixtures("emulated_gpu")
@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_json_holds_every_figure_of_the_gpu(device: str, small_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", str(small_model), "--device", device, "--repetitions", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["device"], facts["isa"], facts["threads"]) == ("emulator", "sm_80", 0)
    assert (facts["model"], facts["quantisation"]) == ("small", "Q8_0")
    for key in ("stream_gb_s", "load_s", "first_token_s", "pp512_tok_s", "tg128_tok_s", "tg128_share", "peak_rss_mb"):
        assert facts[key] > 0, key
    assert facts["notes"] == [model.UNTESTED]


@pytest.mark.usefixtures("emulated_gpu")
def test_the_table_names_the_gpu_and_no_threads(small_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", str(small_model), "--device", "cuda", "--repetitions", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line[:16].rstrip() for line in lines]
    assert rows == [
        "model", "quantisation", "device", "architecture", "memory limit", "load", "first token", "prompt",
        "generation", "of the limit", "peak memory", f"note: {model.UNTESTED}"[:16],
    ]  # fmt: skip
    assert lines[2] == "device          emulator"
    assert re.fullmatch(r"memory limit +[\d.]+ GB/s read by the whole GPU", lines[4])


@pytest.mark.usefixtures("emulated_gpu")
def test_speculation_is_measured_on_the_gpu_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_tasks, "TASKS", [bench_tasks.TASKS[4]])
    monkeypatch.setattr(bench_command, "SPEC_TOKENS", 6)
    command = ["bench", str(DATA / "tiny-qwen3-2l-q8_0.gguf"), "--device", "cuda", "--repetitions", "1", "--spec"]
    assert run([*command, "--json"]) == 0
    (task,) = json.loads(capsys.readouterr().out)["speculation"]
    assert (task["task"], task["identical"]) == ("list to JSON", True)
    assert task["plain_tok_s"] > 0 and task["spec_tok_s"] > 0


def no_gpu() -> EmulatedDevice:
    raise CudaUnavailableError("CUDA needs a GPU, and there is none: get one")


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "open_gpu", no_gpu)
    monkeypatch.setattr("app.engine.cuda.find.open_gpu", no_gpu)


@pytest.mark.usefixtures("without_gpu")
def test_a_machine_without_a_gpu_says_so_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """And before a model is looked for: none of that name would be found, or one would be fetched for nothing."""
    assert run(["bench", "no-such-model", "--device", "cuda"]) == 1
    assert capsys.readouterr() == ("", "qchat: CUDA needs a GPU, and there is none: get one\n")
    assert run(["bench", "no-such-model", "--device", "cuda", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "CudaUnavailableError"


@pytest.mark.usefixtures("without_gpu")
def test_auto_measures_the_cpu_and_the_table_says_why(
    small_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "STREAM_BYTES", 1 << 20)
    assert run(["bench", str(small_model), "--device", "auto", "--threads", "1", "--repetitions", "1"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^device +cpu$", out, re.MULTILINE) and re.search(r"^threads +1$", out, re.MULTILINE)
    assert "note: on the CPU: CUDA needs a GPU, and there is none: get one" in out
