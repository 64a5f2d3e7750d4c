"""How fast a loaded model is on this machine, and how far from what the machine allows.

Decoding reads every weight once a token, so its limit is the speed of reading memory. Both are measured in turn in the
same run: on a shared machine a limit from another moment says nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from app.engine.cpu.decoder import CpuDecoder
from app.engine.cpu.layout import Stream
from app.engine.cpu.pool import Pool
from app.engine.cuda.decoder import CudaDecoder
from app.engine.decoder import Decoder
from app.engine.memory import peak_rss_mb, private_memory
from app.engine.model import LoadedModel
from app.errors import UsageError

PROMPT_TOKENS, GENERATED_TOKENS = 512, 128  # llama-bench's pp512 and tg128
STREAM_BYTES = 512 << 20  # far larger than any cache
FIRST_PROMPT = 16  # tokens of the prompt whose first token is timed


@dataclass(frozen=True)
class Measurement:
    """Medians over the repetitions. Speeds in tokens a second, memory in 10^9 bytes a second, peak in 10^6 bytes."""

    stream_gb_s: float  # of the memory that has the weights
    load_s: float
    first_token_s: float  # from the start of loading
    pp512_tok_s: float
    tg128_tok_s: float
    tg128_share: float  # of the stream-read limit
    peak_rss_mb: float  # of this process, also where the weights are on a GPU


def measure(model: LoadedModel, repetitions: int, tell: Callable[[str], None]) -> Measurement:
    """Measure `model`, fresh from loading. `tell` is given what is being measured.

    Raises UsageError where the context is too short for the prompt.
    """
    decoder = model.decoder
    if decoder.n_ctx < PROMPT_TOKENS:
        raise UsageError(f"a context of {decoder.n_ctx:,} tokens is too short for the prompt of {PROMPT_TOKENS}")
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, model.spec.vocab_size, PROMPT_TOKENS).tolist()
    first_s = _seconds(lambda: _read(decoder, prompt[:FIRST_PROMPT]))
    prefill, decode = [], []
    for turn in range(repetitions):
        tell(f"prompt of {PROMPT_TOKENS} tokens, {turn + 1} of {repetitions}")
        decoder.truncate(0)
        prefill.append(PROMPT_TOKENS / _seconds(lambda: _read(decoder, prompt)))
    peak = peak_rss_mb()  # before the block that is read for the limit
    limits, shares = [], []
    limit = _memory_limit(decoder)
    for turn in range(repetitions):
        tell(f"{GENERATED_TOKENS} tokens and the memory limit, {turn + 1} of {repetitions}")
        before = limit()
        decoder.truncate(0)
        decode.append(GENERATED_TOKENS / _seconds(lambda: _step(decoder, prompt[:GENERATED_TOKENS])))
        limits.append(max(before, limit()))
        shares.append(decode[-1] * model.token_bytes / 1e9 / limits[-1])
    return Measurement(
        stream_gb_s=statistics.median(limits),
        load_s=model.load_s,
        first_token_s=model.load_s + first_s,
        pp512_tok_s=statistics.median(prefill),
        tg128_tok_s=statistics.median(decode),
        tg128_share=statistics.median(shares),
        peak_rss_mb=peak,
    )


def _memory_limit(decoder: CpuDecoder | CudaDecoder) -> Callable[[], float]:
    """What measures how fast the decoder's device reads memory, in 10^9 bytes a second."""
    if isinstance(decoder, CudaDecoder):
        return decoder.read_speed().gb_s
    pool, memory = decoder.pool, np.frombuffer(private_memory(STREAM_BYTES, huge_pages=True), np.uint8)
    memory[:] = 1
    return lambda: stream_gb_s(pool, memory)


def stream_gb_s(pool: Pool, memory: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> float:
    """The best of three reads of `memory` by all threads, in 10^9 bytes a second."""
    read = StreamRead(pool, memory)
    return memory.nbytes / min(_seconds(read) for _ in range(3)) / 1e9


class StreamRead:
    """A read of a block of memory by all threads of a pool, to be called."""

    def __init__(self, pool: Pool, memory: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        self._pool, self._memory = pool, memory
        self._sums, self._table = np.zeros(pool.n_threads, np.int32), np.zeros(len(Stream), np.int64)
        self._table[Stream.ADDRESS], self._table[Stream.N_BYTES] = memory.ctypes.data, memory.nbytes
        self._table[Stream.N_THREADS], self._table[Stream.SUMS] = pool.n_threads, self._sums.ctypes.data

    def __call__(self) -> None:
        self._pool.stream(self._table.ctypes.data)


def _read(decoder: Decoder, tokens: list[int]) -> None:
    """Prefill; logits of the last token only."""
    for first in range(0, len(tokens), decoder.chunk):
        part = tokens[first : first + decoder.chunk]
        decoder.forward(part, 1 if first + len(part) == len(tokens) else 0)


def _step(decoder: Decoder, tokens: Iterable[int]) -> None:
    """Plain decoding: one token a step, and the choice of the next from its logits."""
    for token in tokens:
        decoder.forward([token], 1).argmax()


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
