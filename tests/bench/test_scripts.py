"""The benches that run in one process, on the smallest model: they follow names of the engine, and are seldom run."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.home import home_with_compiled_kernels, home_with_kernels, qchat_home

__all__ = ["home_with_compiled_kernels", "home_with_kernels", "qchat_home"]

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "tests" / "data" / "tiny-qwen3-q8_0.gguf")


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "bench" / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("home_with_compiled_kernels")
def test_a_start_has_all_its_stages() -> None:
    stages = json.loads(run("start.py", "--serve", MODEL, "1", repr(time.time())))
    assert set(stages) >= {"python, imports", "header", "tokenizer", "kernels", "weights", "decoder", "all"}
    whole, _ = stages["all"]
    assert 0 < sum(wall for stage, (wall, _) in stages.items() if stage != "all") < 1.01 * whole


@pytest.mark.usefixtures("home_with_compiled_kernels")
@pytest.mark.parametrize(
    ("script", "arguments", "told"),
    [
        ("share.py", (MODEL, "--tokens", "3", "--repetitions", "1"), "tokens/s"),
        ("phases.py", (MODEL, "--repetitions", "1"), "around"),
        ("step_cost.py", (MODEL, "--repetitions", "1"), "c(8)"),
        ("sampling.py", (), "StopFilter"),
    ],
)
def test_a_bench_runs_to_its_end(script: str, arguments: tuple[str, ...], told: str) -> None:
    assert told in run(script, *arguments)
