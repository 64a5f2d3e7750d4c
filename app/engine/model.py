"""A model that is ready to answer: its file, tokenizer, weights and decoder, loaded in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.engine.cpu import isa as instruction_sets
from app.engine.cpu.decoder import CpuDecoder
from app.engine.cpu.library import load_kernels
from app.engine.cpu.pool import physical_cores
from app.engine.cpu.trace import Tracer
from app.engine.cpu.weights import PackedWeights
from app.engine.cuda.decoder import CudaDecoder
from app.engine.cuda.find import open_gpu
from app.engine.cuda.kv_cache import SCALE_COLUMNS
from app.engine.cuda.layout import CHUNK
from app.engine.cuda.memory import SHORT_CHAT, context_that_fits, need_of
from app.engine.cuda.program import largest_chunk
from app.engine.cuda.weights import plan_weights
from app.engine.formats import GGMLType
from app.engine.gguf import GGUFFile, read_model
from app.engine.memory import give_back_unused
from app.engine.spec import ModelSpec
from app.engine.tokenizer import Tokenizer
from app.errors import CudaUnavailableError, DeviceMemoryError, UsageError
from app.settings import Settings

OnProgress = Callable[[str, int, int], None]

UNTESTED = "the CUDA engine was proven in an emulator and has not been measured on a GPU"


@dataclass
class LoadedModel:
    """What `load_model` gives. `notes` are things that a person should know about how it runs."""

    path: Path
    gguf: GGUFFile
    spec: ModelSpec
    tokenizer: Tokenizer
    decoder: CpuDecoder | CudaDecoder
    device: str  # what the network runs on: "cpu", or the name of a GPU
    isa: str  # the instruction set, or the GPU's architecture
    threads: int  # of the CPU engine; 0 on a GPU
    kv: str
    resident_bytes: int  # of weights
    token_bytes: int  # of them that a token reads
    load_s: float
    notes: list[str] = field(default_factory=list)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The file's metadata."""
        return self.gguf.metadata

    @property
    def chat_template(self) -> str | None:
        """The file's own chat template."""
        template = self.gguf.metadata.get("tokenizer.chat_template")
        return template if isinstance(template, str) else None

    def stand_aside(self, wanted: bool) -> None:
        """Whether a thread of the CPU engine leaves its core to whoever draws the screen; a GPU needs none."""
        if isinstance(self.decoder, CpuDecoder):
            self.decoder.pool.stand_aside(wanted)

    def close(self) -> None:
        """End the threads and close the file."""
        self.decoder.close()
        self.gguf.close()


def load_model(
    path: str | Path,
    *,
    device: str = "cpu",
    threads: int | None = None,
    n_ctx: int | None = None,
    kv: str = "f16",
    lm_head: str | None = None,
    cache_bytes: int = 0,
    on_progress: OnProgress | None = None,
    notify: Callable[[str], None] | None = None,
) -> LoadedModel:
    """Load a GGUF file onto a device.

    device    "cpu", "cuda", or "auto": CUDA where there is a GPU with enough memory, and a note that says which and why
    threads   default: the physical cores that this process may use
    n_ctx     tokens that a conversation can hold; default and upper limit: the model's own context
    kv        type of the cache: "f16", "f32" or "q8_0"
    lm_head   "q4_0" requantises the LM head: fewer bytes a token, other answers
    cache_bytes   what packed weights of all models may take on disk; 0 keeps none
    Raises the errors of read_model and ModelSpec.from_gguf, UsageError for an option the model does not allow, and for
    "cuda" CudaUnavailableError and DeviceMemoryError.
    """
    started = time.perf_counter()
    gguf = read_model(path)
    try:
        spec = ModelSpec.from_gguf(gguf)
        if n_ctx is not None and n_ctx > spec.context_length:
            raise UsageError(
                f"--ctx {n_ctx:,} is more than the {spec.context_length:,} tokens that this model was made for",
                f"choose at most {spec.context_length:,}",
            )
        tokenizer = Tokenizer.from_gguf(gguf)
        report = None if on_progress is None else (lambda done, total: on_progress("load", done, total))
        head_kind = GGMLType.Q4_0 if lm_head == "q4_0" else None
        notes = [] if head_kind is None else ["LM head requantised to q4_0: answers differ from the file's own"]
        if device != "cpu":
            try:
                return _load_on_gpu(
                    Path(path), gguf, spec, tokenizer, n_ctx=n_ctx, kv=kv, head_kind=head_kind, started=started,
                    report=report, notes=notes, insisted=device == "cuda",
                )  # fmt: skip
            except (CudaUnavailableError, DeviceMemoryError) as error:
                if device == "cuda":
                    raise
                notes.append(f"on the CPU: {error.message}")
        isa = instruction_sets.choose()
        kernels = load_kernels(isa, notify or _say_nothing)
        give_back_unused()  # building a tokenizer and linking leave tens of megabytes that weights could use
        n_threads = threads or physical_cores()
        weights = PackedWeights(
            gguf,
            spec,
            kernels,
            n_threads,
            head_kind=head_kind,
            on_progress=report,
            cache_bytes=cache_bytes,
            notify=notify,
        )
        give_back_unused()
        decoder = CpuDecoder(
            gguf, spec, weights, kernels, threads=n_threads, n_ctx=n_ctx or spec.context_length, kv=kv,
            tracer=Tracer.from_environment(),
        )  # fmt: skip
    except BaseException:
        gguf.close()
        raise
    if caution := instruction_sets.caution(isa):
        notes.append(caution)
    return LoadedModel(
        path=Path(path), gguf=gguf, spec=spec, tokenizer=tokenizer, decoder=decoder, device="cpu", isa=isa.name,
        threads=n_threads, kv=kv, resident_bytes=weights.n_bytes, token_bytes=weights.n_bytes,
        load_s=time.perf_counter() - started, notes=notes,
    )  # fmt: skip


def _load_on_gpu(
    path: Path, gguf: GGUFFile, spec: ModelSpec, tokenizer: Tokenizer, *, n_ctx: int | None, kv: str,
    head_kind: GGMLType | None, started: float, report: Callable[[int, int], None] | None, notes: list[str],
    insisted: bool,
) -> LoadedModel:  # fmt: skip
    """The same on the first GPU. A context that nobody asked for shrinks to what fits, and a note says so; unless
    somebody insists on the GPU, to no less than a chat is worth beginning with."""
    gpu = open_gpu()
    plan = plan_weights(gguf, spec, head_kind)
    wanted = n_ctx or spec.context_length
    rows, least = largest_chunk(wanted), n_ctx or (CHUNK if insisted else SHORT_CHAT)
    other_cache = kv != "q8_0" and spec.head_dim % SCALE_COLUMNS == 0
    room = context_that_fits(
        need_of(gguf, spec, plan, kv, rows), gpu.free_bytes(), wanted, least=least, name=gpu.facts.name,
        with_q8_0=need_of(gguf, spec, plan, "q8_0", rows) if other_cache else None,
    )  # fmt: skip
    if room < wanted:
        notes = [*notes, f"context of {room:,} tokens in place of {wanted:,}: more does not fit into the GPU's memory"]
    try:
        decoder = CudaDecoder(gguf, spec, plan, gpu, n_ctx=room, kv=kv, on_progress=report or _say_nothing)
    except MemoryError as error:  # somebody else took it since it was counted
        raise DeviceMemoryError(
            f"{gpu.facts.name} ran out of memory while the model was loaded: {error}",
            "nvidia-smi shows what else takes it; --device cpu needs none of it",
        ) from error
    give_back_unused()
    return LoadedModel(
        path=path, gguf=gguf, spec=spec, tokenizer=tokenizer, decoder=decoder, device=gpu.facts.name,
        isa=gpu.facts.architecture, threads=0, kv=kv, resident_bytes=plan.n_bytes, token_bytes=plan.token_bytes,
        load_s=time.perf_counter() - started, notes=[*notes, UNTESTED],
    )  # fmt: skip


def load_configured(
    settings: Settings,
    path: Path,
    *,
    on_progress: OnProgress | None = None,
    notify: Callable[[str], None] | None = None,
) -> LoadedModel:
    """`load_model` with what the settings say."""
    return load_model(
        path,
        device=settings.device,
        threads=settings.threads or None,
        n_ctx=settings.ctx or None,
        kv=settings.kv,
        lm_head=settings.lm_head,
        cache_bytes=int(settings.packed_cache_gb * 1e9),
        on_progress=on_progress,
        notify=notify,
    )


def _say_nothing(*_: object) -> None:
    """Nobody wants to be told."""
