"""Whether a GPU computes what docs/numerics.md says: bit for bit what NumPy does, and what the CPU engine does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from app.engine.cuda.decoder import CudaDecoder
from app.engine.cuda.device import Device
from app.engine.cuda.read_speed import ReadSpeed
from app.engine.cuda.weights import plan_weights
from app.engine.formats import FORMATS
from app.engine.gguf import read_gguf
from app.engine.spec import ModelSpec
from tests.conftest import DATA
from tests.engine.decoders import Floats, all_logits, cpu_decoder, reference_logits
from tests.gguf_files import write_model

# Tokens of steps of every size, of chunks of a prompt, and of steps again, past a page of the cache.
STEPS = (1, 2, 3, 4, 8, 70, 50, 8, 1)
TRAINED = DATA / "tiny-qwen3-q8_0.gguf"


@dataclass(frozen=True)
class Case:
    """A random model of two layers, and the cache with which it is asked."""

    name: str
    model: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # options of gguf_files.make_model
    kv: str = "f16"


CASES = (
    *(Case(kind.name, {"types": kind.name}) for kind in FORMATS),
    Case("cache f32", kv="f32"),
    Case("cache q8_0", kv="q8_0"),
    Case("qwen2", {"architecture": "qwen2"}),
    Case("llama", {"architecture": "llama"}),
    Case("head of 80", {"head_dim": 80}),
    Case("7 heads a group", {"n_heads": 7, "n_kv_heads": 1}),
)


def check_case(case: Case, gpu: Device, steps: Sequence[int], **options: Any) -> Iterator[tuple[str, bool]]:
    """Each question about it, and whether the answer is right. `options` are CudaDecoder's."""
    tokens = np.random.default_rng(5).integers(0, 250, sum(steps)).tolist()
    with tempfile.TemporaryDirectory() as folder:
        path = write_model(Path(folder) / "model.gguf", **{"head_dim": 128, **case.model})
        wanted = reference_logits(path, tokens, case.kv)
        yield from _compare(f"{case.name}: NumPy's bits", path, gpu, tokens, steps, wanted, kv=case.kv, **options)


def check_trained(gpu: Device, steps: Sequence[int], **options: Any) -> Iterator[tuple[str, bool]]:
    """The same of a trained model and the CPU engine."""
    tokens = np.random.default_rng(5).integers(0, 1800, sum(steps)).tolist()
    with cpu_decoder(TRAINED) as cpu:
        wanted = all_logits(cpu, tokens, cpu.chunk)
    yield from _compare("a trained model: the CPU engine's bits", TRAINED, gpu, tokens, steps, wanted, **options)


def check_greedy(gpu: Device, steps: Sequence[int], **options: Any) -> Iterator[tuple[str, bool]]:
    """Tokens that the GPU draws by itself after a prompt of the largest of `steps`, past the end of a page with enough
    of them, and a step of which the first three guesses are right."""
    prompt = np.random.default_rng(6).integers(0, 1800, max(steps)).tolist()
    with cpu_decoder(TRAINED) as cpu:
        wanted = [int(cpu.forward(prompt, 1)[0].argmax())]
        while len(wanted) < 2 * max(steps):
            wanted.append(int(cpu.forward(wanted[-1:], 1)[0].argmax()))
    with read_gguf(TRAINED) as gguf:
        spec = ModelSpec.from_gguf(gguf)
        n_ctx = len(prompt) + len(wanted) - 1
        decoder = CudaDecoder(gguf, spec, plan_weights(gguf, spec), gpu, n_ctx=n_ctx, kv="f16", **options)
        if decoder.runs_by_itself:
            decoder.forward(prompt, 0)
            got = wanted[:1]
            while decoder.length < n_ctx:
                run = decoder.run_greedily(got[-1], (), n_ctx - decoder.length, ())
                while tokens := run.next_step()[0]:
                    got += tokens
            yield "a trained model: the CPU engine's tokens, drawn by the GPU", got == wanted
            decoder.truncate(len(prompt))
            draft = [*wanted[1:4], *[(wanted[4] + 1) % 1800] * 4]
            tokens = decoder.run_greedily(wanted[0], draft, 1, ()).next_step()[0]
            yield "a trained model: right guesses are kept by the GPU", list(tokens) == wanted[1:5]
        decoder.close()


def _compare(
    question: str, path: Path, gpu: Device, tokens: Sequence[int], steps: Sequence[int], wanted: Floats, *,
    kv: str = "f16", **options: Any,
) -> Iterator[tuple[str, bool]]:  # fmt: skip
    with read_gguf(path) as gguf:
        spec = ModelSpec.from_gguf(gguf)
        decoder = CudaDecoder(gguf, spec, plan_weights(gguf, spec), gpu, n_ctx=len(tokens), kv=kv, **options)
        for persistent in [True, False] if decoder.persistent else [False]:
            decoder.truncate(0)
            decoder.persistent = persistent
            parts, first = [], 0
            for count in steps:
                parts.append(decoder.forward(tokens[first : first + count], count).copy())
                first += count
            yield (
                f"{question}, {'one launch' if persistent else 'a launch a phase'}",
                np.array_equal(np.concatenate(parts), wanted),
            )
        decoder.close()


def check_reading(gpu: Device, n_bytes: int) -> Iterator[tuple[str, bool]]:
    """What the limit is measured with reads every byte, and copying copies it."""
    values = np.random.default_rng(0).integers(0, 256, n_bytes, np.uint8)
    memory, other, back = gpu.allocate(n_bytes), gpu.allocate(n_bytes), np.zeros(n_bytes, np.uint8)
    gpu.write(memory, values)
    wanted = int(values.view(np.uint32).sum(dtype=np.uint32))
    yield "reading: NumPy's sum", ReadSpeed(gpu, memory).total() == wanted
    gpu.copy(other, memory)
    gpu.read(other, back)
    yield "copying: the same bytes", np.array_equal(back, values)
