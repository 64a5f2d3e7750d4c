"""How fast a GPU copies, and how fast the engine is on it for a model of one shape and format."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.engine.cuda.decoder import CudaDecoder
from app.engine.cuda.device import Device
from app.engine.formats import GGMLType
from bench.random_gpu_model import RandomModel


@dataclass(frozen=True)
class Sizes:
    """What is measured: bytes of a copy, tokens of a prompt, and steps at the depth where it has ended."""

    copy_bytes: int = 2 << 30
    prompt: int = 512
    steps: int = 32
    repetitions: int = 3
    n_ctx: int = 2048


@dataclass(frozen=True)
class Speed:
    """One shape and format. Seconds a step by its tokens, speeds in tokens a second, memory in 10^9 bytes a second."""

    shape: str
    format: str
    gigabytes: float  # that a token reads
    load_s: float  # compiling, making and packing the weights
    persistent_s: dict[int, float]
    graph_s: dict[int, float]
    alone_s: dict[int, float]  # of greedy steps without the host
    read_gb_s: float  # of the same weights
    decode_tok_s: float
    share_of_reading: float
    prompt_tok_s: float


def copy_gb_s(gpu: Device, n_bytes: int) -> float:
    """Bytes read and written by a copy on the card, the best of five, in 10^9 a second."""
    a, b, one = gpu.allocate(n_bytes), gpu.allocate(n_bytes), np.zeros(1, np.uint8)
    gpu.clear(a)

    def copy() -> None:
        gpu.copy(b, a)
        gpu.read(b, one)  # waits for it

    copy()
    return 2 * n_bytes / min(_seconds(copy) for _ in range(5)) / 1e9


def measure(
    gpu: Device, name: str, shape: Mapping[str, Any], kind: GGMLType, sizes: Sizes, **options: Any
) -> Speed:  # fmt: skip
    """A model of random weights. `options` are CudaDecoder's. Raises MemoryError, and ValueError for logits that are
    no numbers: then no speed would mean anything."""
    started = time.perf_counter()
    model = RandomModel(shape, kind)
    decoder = model.decoder(gpu, n_ctx=sizes.n_ctx, **options)
    load_s = time.perf_counter() - started
    try:
        return _measure(decoder, model, name, kind, sizes, load_s)
    finally:
        decoder.close()


def _measure(
    decoder: CudaDecoder, model: RandomModel, name: str, kind: GGMLType, sizes: Sizes, load_s: float
) -> Speed:  # fmt: skip
    ids = np.random.default_rng(0).integers(0, model.spec.vocab_size, sizes.prompt).tolist()

    def prompt() -> None:
        decoder.truncate(0)
        for first in range(0, len(ids), decoder.chunk):
            decoder.forward(ids[first : first + decoder.chunk], 1)

    def step_s(count: int) -> float:
        prompt()
        for _ in range(3):  # the first is compiled, the second recorded
            decoder.forward(ids[:count], 1)
        started = time.perf_counter()
        for _ in range(sizes.steps):
            decoder.forward(ids[:count], 1)
        return (time.perf_counter() - started) / sizes.steps

    def alone_s() -> float:
        prompt()
        first, end = decoder.length, decoder.length + sizes.steps
        started = time.perf_counter()
        while decoder.length < end:
            run = decoder.run_greedily(ids[0], (), end - decoder.length, ())
            while run.next_step()[0]:
                pass
        return (time.perf_counter() - started) / (end - first)

    prompt()
    if not np.isfinite(decoder.forward(ids[:1], 1)).all():
        raise ValueError("logits that are no numbers")
    prompt_s = min(_seconds(prompt) for _ in range(sizes.repetitions))
    reading = decoder.read_speed()
    read_gb_s = reading.gb_s()
    persistent = {count: step_s(count) for count in decoder.step_sizes} if decoder.persistent else {}
    alone = {1: min(alone_s() for _ in range(sizes.repetitions))} if decoder.runs_by_itself else {}
    decoder.persistent = False
    graph = {count: step_s(count) for count in decoder.step_sizes}
    read_gb_s = max(read_gb_s, reading.gb_s())
    token_s = min(times[1] for times in (persistent, graph, alone) if times)
    gigabytes = model.plan.token_bytes / 1e9
    return Speed(
        name, kind.name, gigabytes, load_s, persistent, graph, alone, read_gb_s, 1 / token_s,
        gigabytes / token_s / read_gb_s, sizes.prompt / prompt_s,
    )  # fmt: skip


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
