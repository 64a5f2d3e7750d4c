"""llama.cpp as a peer: greedy token ids, log-probabilities and tokenisation of the same GGUF file.

The wheel `xllamacpp` (a development dependency) runs llama.cpp's server inside this process, on a free loopback port.
Prompts go in and replies come out as token ids, so nothing of a chat template or of text decoding lies between the two
engines that a test compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import xllamacpp

_TIMEOUT_S = 300.0  # for one request; the slowest test needs a few seconds


class LlamaCpp:
    """One model in llama.cpp: `with LlamaCpp(path, n_ctx=512) as peer: peer.greedy(prompt_ids, 128)`.

    The cache is f16 and attention is the plain kind (flash attention rounds more). Writes nothing to stderr. Raises
    RuntimeError when llama.cpp cannot load the file.
    """

    def __init__(self, path: Path, *, n_ctx: int, threads: int = 1) -> None:
        params = xllamacpp.CommonParams()
        params.verbosity = -1
        params.model.path = str(path)
        params.n_ctx = n_ctx
        params.n_parallel = 1
        params.n_gpu_layers = 0
        params.fit_params = False  # or n_ctx is only a wish
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.n_threads_http = 1
        params.warmup = False
        params.cache_ram_mib = 0
        params.ui = False
        params.enable_chat_template = False
        self._server: Any = xllamacpp.Server(params)
        self._client = httpx.Client(base_url=self._server.listening_address, timeout=_TIMEOUT_S, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server and free the model."""
        self._client.close()
        self._server = None  # the wheel's server has no other way to end

    def greedy(self, prompt_ids: Sequence[int], n: int, *, ignore_end: bool = False) -> list[int]:
        """The `n` best tokens one after another; fewer if one of them ends the reply, and then that one is the last.

        `ignore_end` makes tokens that would end the reply impossible, so there are always `n`.
        """
        reply = self._complete(prompt_ids, n_predict=n, ignore_eos=ignore_end)
        return [int(token) for token in reply["tokens"]]

    def logprobs(self, prompt_ids: Sequence[int], top: int) -> dict[int, float]:
        """The `top` most likely next tokens and their log-probabilities, best first.

        Differences between two of them are differences of logits. The vocabulary's size as `top` gives all of them, at
        about 0.1 ms each.
        """
        reply = self._complete(prompt_ids, n_predict=1, n_probs=top)
        return {entry["id"]: entry["logprob"] for entry in reply["completion_probabilities"][0]["top_logprobs"]}

    def tokenize(self, text: str, *, control_tokens: bool = False) -> list[int]:
        """The ids of `text`, without a begin token; what looks like a control token is one only if asked for."""
        body = {"content": text, "add_special": False, "parse_special": control_tokens}
        return [int(token) for token in self._post("/tokenize", body)["tokens"]]

    def _complete(self, prompt_ids: Sequence[int], **options: int) -> dict[str, Any]:
        body = {
            "prompt": [int(token) for token in prompt_ids],
            "temperature": 0,
            "samplers": ["temperature"],
            "cache_prompt": False,  # a warm cache may round differently in llama.cpp
            "return_tokens": True,
        }
        return self._post("/completion", body | options)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = self._client.post(path, json=body)
        if response.is_error:
            raise RuntimeError(f"llama.cpp answered {response.status_code}: {response.text}")
        answer: dict[str, Any] = response.json()
        return answer
