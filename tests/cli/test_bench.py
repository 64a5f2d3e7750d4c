"""`qchat bench` on a real, small model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.cli import bench as bench_command
from app.cli import bench_tasks, run
from app.engine.cpu import isa
from app.engine.cpu.isa import INSTRUCTION_SETS
from tests.gguf_files import write_model

pytestmark = pytest.mark.usefixtures("home_with_kernels")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "small.gguf", context_length=1024)


def test_json_holds_every_figure(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", str(model), "--threads", "1", "--repetitions", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["model"], facts["quantisation"], facts["threads"]) == ("small", "Q8_0", 1)
    assert facts["isa"] in [each.name for each in INSTRUCTION_SETS]
    for key in ("stream_gb_s", "load_s", "first_token_s", "pp512_tok_s", "tg128_tok_s", "tg128_share", "peak_rss_mb"):
        assert facts[key] > 0, key
    assert facts["first_token_s"] > facts["load_s"]
    # tokens a second times the bytes of a token is the speed that the share is of
    weights = model.stat().st_size / 1e9
    assert facts["tg128_share"] == pytest.approx(facts["tg128_tok_s"] * weights / facts["stream_gb_s"], rel=0.1)


def test_the_table_is_readable_and_names_the_forced_set_and_all_notes(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QCHAT_ISA", "generic")
    monkeypatch.setattr(isa, "machine", lambda: "sparc")
    assert run(["bench", str(model), "--repetitions", "1", "--lm-head", "q4_0"]) == 0
    out, err = capsys.readouterr()
    assert "memory limit" in out and "tokens/s" in out
    assert re.search(r"^instruction set +generic$", out, re.MULTILINE)
    assert "note: LM head requantised to q4_0" in out
    assert "note: the generic kernels have never been tested on a real sparc processor" in out
    assert "\x1b" not in out + err


def test_a_context_too_short_for_the_prompt_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_model(tmp_path / "short.gguf", context_length=256)
    assert run(["bench", str(model)]) == 2
    assert "512" in capsys.readouterr().err


def test_speculation_is_measured_task_by_task(
    tiny_qwen3_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_tasks, "TASKS", [bench_tasks.TASKS[0], bench_tasks.TASKS[4]])
    monkeypatch.setattr(bench_command, "SPEC_TOKENS", 24)
    command = ["bench", str(tiny_qwen3_path), "--threads", "1", "--repetitions", "1", "--spec"]
    assert run([*command, "--json"]) == 0
    tasks = json.loads(capsys.readouterr().out)["speculation"]
    assert [task["task"] for task in tasks] == ["prose", "list to JSON"]
    for task in tasks:
        assert task["identical"] is True
        assert task["ratio"] == pytest.approx(task["spec_tok_s"] / task["plain_tok_s"])  # of the one pair
        assert task["tokens_per_step"] >= 1 and task["drafted"] >= task["accepted"] >= 0
    assert run(command) == 0
    assert re.search(r"^prose +[\d.]+ tokens/s, with speculation [\d.]+, ", capsys.readouterr().out, re.MULTILINE)
