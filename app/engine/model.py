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
from app.engine.formats import GGMLType
from app.engine.gguf import GGUFFile, read_model
from app.engine.memory import give_back_unused
from app.engine.spec import ModelSpec
from app.engine.tokenizer import Tokenizer
from app.errors import UsageError
from app.settings import Settings

OnProgress = Callable[[str, int, int], None]


@dataclass
class LoadedModel:
    """What `load_model` gives. `notes` are things that a person should know about how it runs."""

    path: Path
    gguf: GGUFFile
    spec: ModelSpec
    tokenizer: Tokenizer
    decoder: CpuDecoder
    isa: str
    threads: int
    kv: str
    resident_bytes: int
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

    def close(self) -> None:
        """End the threads and close the file."""
        self.decoder.close()
        self.gguf.close()


def load_model(
    path: str | Path,
    *,
    threads: int | None = None,
    n_ctx: int | None = None,
    kv: str = "f16",
    lm_head: str | None = None,
    cache_bytes: int = 0,
    on_progress: OnProgress | None = None,
    notify: Callable[[str], None] | None = None,
) -> LoadedModel:
    """Load a GGUF file, or the parts of one, onto the CPU.

    threads   default: the physical cores that this process may use
    n_ctx     tokens that a conversation can hold; default and upper limit: the model's own context
    kv        type of the cache: "f16", "f32" or "q8_0"
    lm_head   "q4_0" requantises the LM head: fewer bytes a token, other answers
    cache_bytes   what packed weights of all models may take on disk; 0 keeps none
    Raises the errors of read_model and ModelSpec.from_gguf, and UsageError for an option the model does not allow.
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
        isa = instruction_sets.choose()
        kernels = load_kernels(isa, notify or _say_nothing)
        give_back_unused()  # building a tokenizer and linking leave tens of megabytes that weights could use
        n_threads = threads or physical_cores()
        report = None if on_progress is None else (lambda done, total: on_progress("load", done, total))
        head_kind = GGMLType.Q4_0 if lm_head == "q4_0" else None
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
    requantised = "LM head requantised to q4_0: answers differ from the file's own" if head_kind is not None else None
    notes = [note for note in (requantised, instruction_sets.caution(isa)) if note is not None]
    return LoadedModel(
        path=Path(path), gguf=gguf, spec=spec, tokenizer=tokenizer, decoder=decoder, isa=isa.name, threads=n_threads,
        kv=kv, resident_bytes=weights.n_bytes, load_s=time.perf_counter() - started, notes=notes,
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
        threads=settings.threads or None,
        n_ctx=settings.ctx or None,
        kv=settings.kv,
        lm_head=settings.lm_head,
        cache_bytes=int(settings.packed_cache_gb * 1e9),
        on_progress=on_progress,
        notify=notify,
    )


def _say_nothing(message: str) -> None:
    """Nobody wants to be told."""
