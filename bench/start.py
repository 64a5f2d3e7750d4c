"""From starting a process to the first token of a reply to 16 tokens, stage by stage, ours and llama.cpp's in turn.

    python bench/start.py MODEL ... [--repetitions 5] [--json FILE]

Files are in the system's cache and kernels are compiled already. Seconds of the wall clock, and in brackets of all
threads' processor time, which a busy machine disturbs less; medians. llama.cpp is llama-bench with a prompt of 16 and
no warm-up, which shows the whole alone.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from native_llama_cpp import llama_bench
from peer_qchat import ROOT, home_of
from peers import add_common_options, resolve

PROMPT = 16
WHOLE = "all"
PARTS = {"header": "read_model", "kernels": "load_kernels", "weights": "PackedWeights", "decoder": "CpuDecoder"}
Stages = dict[str, tuple[float, float]]  # seconds of wall clock, of processor time


def serve(path: str, threads: int, started: float) -> None:
    """A fresh process of ours; prints its stages. `started`: time.time() when its parent started it."""
    stages: Stages = {}

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timing(*args: Any, **options: Any) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            result = work(*args, **options)
            stages[name] = (time.perf_counter() - wall, time.process_time() - cpu)
            return result

        return timing

    loading: Any = importlib.import_module("app.engine.model")
    stages["python, imports"] = (time.time() - started, time.process_time())
    loading.Tokenizer.from_gguf = timed("tokenizer", loading.Tokenizer.from_gguf)
    for name, part in PARTS.items():
        setattr(loading, part, timed(name, getattr(loading, part)))
    model = timed("load", loading.load_model)(path, threads=threads)
    inside = [stages[name] for name in ("tokenizer", *PARTS)]
    wall, cpu = stages.pop("load")
    stages["other loading"] = (wall - sum(one[0] for one in inside), cpu - sum(one[1] for one in inside))
    prompt = list(range(1000, 1000 + PROMPT))
    timed(f"prompt of {PROMPT}", lambda: int(model.decoder.forward(prompt, 1).argmax()))()
    stages[WHOLE] = (time.time() - started, time.process_time())
    print(json.dumps(stages))
    model.close()


def ours(path: Path, threads: int) -> Stages:
    environment = os.environ | {"QCHAT_HOME": str(home_of(ROOT)), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, __file__, "--serve", str(path), str(threads), repr(time.time())]
    stages: Stages = json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    return stages


def peer(program: Path, path: Path, threads: int) -> Stages:
    command = [
        str(program),
        "-m",
        str(path),
        "-t",
        str(threads),
        "-p",
        str(PROMPT),
        "-n",
        "0",
        "-r",
        "1",
        "--no-warmup",
    ]
    wall, cpu = time.perf_counter(), _children_s()
    subprocess.run(command, capture_output=True, check=True)
    return {WHOLE: (time.perf_counter() - wall, _children_s() - cpu)}


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_common_options(parser)
    options = parser.parse_args()
    program = None if options.no_peer else llama_bench()
    results: dict[str, dict[str, list[Stages]]] = {}
    for model in options.models:
        path = resolve(model)
        ours(path, options.threads)  # compiles the kernels and brings the file into the system's cache
        taken: dict[str, list[Stages]] = {name: [] for name in ("qchat", "llama.cpp")[: 2 if program else 1]}
        for _ in range(options.repetitions):
            taken["qchat"].append(ours(path, options.threads))
            if program:
                taken["llama.cpp"].append(peer(program, path, options.threads))
        print(f"\n{model}, {options.threads} threads, {options.repetitions} repetitions")
        for name, runs in taken.items():
            for stage in runs[0]:
                wall, cpu = (statistics.median(run[stage][kind] for run in runs) for kind in (0, 1))
                print(f"  {name:10} {stage:18} {wall:7.3f} ({cpu:.3f})", flush=True)
        results[model] = taken
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
