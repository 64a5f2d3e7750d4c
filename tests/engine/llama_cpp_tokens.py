"""llama.cpp's own tokenisation of a model file, as the reference: the server of the `xllamacpp` wheel, in-process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import xllamacpp

Tokenise = Callable[[str, bool], list[int]]


@contextmanager
def llama_cpp_tokenise(path: Path) -> Iterator[Tokenise]:
    """A function (text, whether control tokens in it are real) -> ids by llama.cpp for the model file at `path`."""
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = 256
    params.warmup = False
    params.cpuparams.n_threads = 1
    params.port = 0
    server = xllamacpp.Server(params)
    with httpx.Client(base_url=server.listening_address, timeout=60) as client:

        def tokenise(text: str, special: bool = False) -> list[int]:
            reply = client.post("/tokenize", json={"content": text, "parse_special": special, "add_special": False})
            ids: list[int] = reply.raise_for_status().json()["tokens"]
            return ids

        yield tokenise
    del server
