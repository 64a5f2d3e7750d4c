"""Everything about the CUDA engine that only a real GPU can tell, in one run of under eight minutes.

    pip install 'qchat[cuda13]'
    python -m bench.gpu [--json FILE] [--shapes 0.6b 1.7b 4b 8b] [--formats Q8_0 Q4_K]

First whether it is right: every format against the CPU engine bit for bit, and that against NumPy float64; steps of
every size, prompts in chunks, all cache types, one launch and many. A wrong result ends the run with exit code 1: no
speed is worth having from a wrong kernel. Then how fast: copying, decoding in the shapes of Qwen3 with random weights,
its share of what copying allows, steps of 1, 2, 4 and 8 tokens, prompts, and one launch a step against a graph.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.engine import numerics
from app.engine.cuda.decoder import CudaDecoder
from app.engine.cuda.find import open_gpu
from app.engine.cuda.weights import plan_weights
from app.engine.formats import FORMATS, GGMLType, dequantise
from app.engine.gguf import read_gguf
from app.engine.spec import ModelSpec
from app.errors import CudaUnavailableError
from bench.random_gpu_model import SHAPES, RandomModel
from tests.engine.decoders import cpu_decoder
from tests.gguf_files import write_model

COPY_BYTES = 2 << 30
PROMPT, DEPTH, TOKENS = 512, 512, 64
LIMIT_S = 450.0  # after this no new shape is begun


@dataclass(frozen=True)
class Speed:
    """One shape and format. Seconds a step of 1, 2, 4 and 8 tokens at a depth of 512; speeds in tokens a second."""

    shape: str
    format: str
    gigabytes: float  # that a token reads
    persistent_s: dict[int, float]
    graph_s: dict[int, float]
    decode_tok_s: float
    share_of_copying: float
    prompt_tok_s: float


def check(gpu: Any) -> Iterator[tuple[str, bool]]:
    """Each question and whether the answer is right."""
    tokens = np.random.default_rng(5).integers(0, 250, 200).tolist()
    cases: list[tuple[str, str, dict[str, Any]]] = [(kind.name, "f16", {"types": kind.name}) for kind in FORMATS]
    cases += [(f"cache {kv}", kv, {}) for kv in ("f32", "q8_0")]
    cases += [("qwen2", "f16", {"architecture": "qwen2"}), ("llama", "f16", {"architecture": "llama"})]
    cases += [("head of 80", "f16", {"head_dim": 80}), ("7 heads a group", "f16", {"n_heads": 7, "n_kv_heads": 1})]
    with tempfile.TemporaryDirectory() as folder:
        for name, kv, options in cases:
            path = write_model(Path(folder) / "model.gguf", **{"head_dim": 128} | options)
            with read_gguf(path) as gguf, cpu_decoder(path, kv=kv) as cpu:
                spec = ModelSpec.from_gguf(gguf)
                gpu_decoder = CudaDecoder(gguf, spec, plan_weights(gguf, spec), gpu, n_ctx=512, kv=kv)
                wanted = np.concatenate([cpu.forward(tokens[:100], 100).copy(), cpu.forward(tokens[100:], 100).copy()])
                for persistent in (True, False):
                    gpu_decoder.truncate(0)
                    gpu_decoder.persistent = persistent and gpu.facts.cooperative
                    parts, first = [], 0
                    for count in (1, 2, 3, 4, 8, 8, 70, 90, 14):
                        parts.append(gpu_decoder.forward(tokens[first : first + count], count).copy())
                        first += count
                    way = "one launch" if persistent else "a launch a phase"
                    yield f"{name}, {way}: the CPU's bits", np.array_equal(np.concatenate(parts), wanted)
            yield f"{name}: NumPy float64", _near_float64(path)


def _near_float64(path: Path) -> bool:
    """The contract's product of a matrix, which the GPU was compared with, is near mathematics."""
    with read_gguf(path) as gguf:
        name = "blk.0.ffn_gate.weight"
        info, raw = gguf.tensors[name], gguf.read(name)
    x = np.random.default_rng(1).standard_normal((4, info.shape[0]), dtype=np.float32)
    got = numerics.multiply(x, raw, info.type).astype(np.float64)
    exact = x.astype(np.float64) @ dequantise(raw, info.type, info.shape[0]).astype(np.float64).T
    return float(np.abs(got - exact).max() / np.abs(exact).max()) < 2e-2  # int8 activations


def copy_gb_s(gpu: Any) -> float:
    """Bytes read and written by a copy of 2 GiB, the best of five, in 10^9 a second."""
    from cupy.cuda import runtime

    a, b = gpu.allocate(COPY_BYTES), gpu.allocate(COPY_BYTES)

    def copy() -> None:
        runtime.memcpyAsync(b.address, a.address, COPY_BYTES, runtime.memcpyDeviceToDevice, gpu.stream.ptr)
        gpu.stream.synchronize()

    copy()
    return 2 * COPY_BYTES / min(_seconds(copy) for _ in range(5)) / 1e9


def measure(gpu: Any, shape: str, kind: GGMLType, limit_gb_s: float) -> Speed:
    """One model of random weights."""
    model = RandomModel(shape, kind)
    decoder = model.decoder(gpu, n_ctx=2048)
    ids = np.random.default_rng(0).integers(0, model.spec.vocab_size, 2048).tolist()

    def fresh() -> None:
        decoder.truncate(0)
        decoder.forward(ids[:DEPTH], 0)

    def step_s(count: int) -> float:
        fresh()
        for _ in range(3):
            decoder.forward(ids[:count], 1)
        started = time.perf_counter()
        for _ in range(TOKENS // 2):
            decoder.forward(ids[:count], 1)
        return (time.perf_counter() - started) / (TOKENS // 2)

    fresh()
    fresh_s = min(_seconds(lambda: (decoder.truncate(0), decoder.forward(ids[:PROMPT], 1))) for _ in range(3))
    persistent = {count: step_s(count) for count in decoder.step_sizes} if decoder.persistent else {}
    decoder.persistent = False
    graph = {count: step_s(count) for count in decoder.step_sizes}
    best = min([times[1] for times in (persistent, graph) if times])
    gigabytes = model.plan.n_bytes / 1e9
    return Speed(
        shape, kind.name, gigabytes, persistent, graph, 1 / best, gigabytes / best / limit_gb_s, PROMPT / fresh_s
    )


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--formats", nargs="+", default=["Q8_0", "Q4_K"])
    options = parser.parse_args()
    started = time.perf_counter()
    try:
        gpu: Any = open_gpu()
    except CudaUnavailableError as error:
        print(error.message, file=sys.stderr)
        return 1
    facts: dict[str, Any] = {"gpu": asdict(gpu.facts), "checks": {}, "speeds": []}
    print(f"{gpu.facts.name}, {gpu.facts.architecture}, {gpu.facts.n_multiprocessors} multiprocessors")
    for question, right in check(gpu):
        facts["checks"][question] = right
        print(f"{'right' if right else 'WRONG'}  {question}", flush=True)
    wrong = [question for question, right in facts["checks"].items() if not right]
    if not wrong:
        facts["copy_gb_s"] = limit = copy_gb_s(gpu)
        print(f"\ncopying: {limit:.0f} GB/s\n")
        print(f"{'':14}{'tokens/s':>10}{'of copying':>12}{'prompt/s':>10}   ms a step: one launch | graph")
        for shape in options.shapes:
            for kind in options.formats:
                if time.perf_counter() - started > LIMIT_S:
                    print(f"{shape} {kind}: left out, the time is over")
                    continue
                speed = measure(gpu, shape, GGMLType[kind], limit)
                facts["speeds"].append(asdict(speed))
                steps = " | ".join(
                    " ".join(f"{1000 * seconds:.2f}" for seconds in times.values())
                    for times in (speed.persistent_s, speed.graph_s)
                )
                print(
                    f"{shape:6}{kind:8}{speed.decode_tok_s:10.1f}{speed.share_of_copying:12.0%}"
                    f"{speed.prompt_tok_s:10.0f}   {steps}",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(facts, indent=1))
    for question in wrong:
        print(f"WRONG: {question}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
