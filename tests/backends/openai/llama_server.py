"""llama.cpp's own HTTP server on a loopback port, out of the wheel `xllamacpp`."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import xllamacpp

NAME = "a-model"


class LlamaServer:
    """`with LlamaServer(path, n_ctx=512, slots=2) as server`: each slot answers one chat at a time."""

    def __init__(self, path: Path, *, n_ctx: int, slots: int = 1) -> None:
        params = xllamacpp.CommonParams()
        params.verbosity = -1
        params.model.path = str(path)
        params.model_alias = {NAME}
        params.n_ctx = n_ctx * slots
        params.n_parallel = slots
        params.n_gpu_layers = 0
        params.fit_params = False  # or n_ctx is only a wish
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.n_threads_http = 4
        params.warmup = False
        params.cache_ram_mib = 0
        params.ui = False
        params.endpoint_slots = True
        self._server: Any = xllamacpp.Server(params)
        self.url: str = self._server.listening_address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server = None  # the wheel's server has no other way to end

    def slots(self) -> list[dict[str, Any]]:
        """What each slot is doing."""
        found: list[dict[str, Any]] = httpx.get(f"{self.url}/slots", timeout=60, trust_env=False).json()
        return found
