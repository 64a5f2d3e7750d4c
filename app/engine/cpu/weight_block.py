"""The memory that holds a model's packed weights: mapped from the cache, or packed into it, or packed to memory.

Matrices are read and packed a megabyte at a time by several threads, so that loading never holds more than the packed
weights and a few such pieces. What is packed into the cache is written there and mapped: the system then holds it once,
can drop it when memory is short, and finds it at the next start.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine.cpu.library import Kernels
from app.engine.cpu.pack import PackedMatrix, Packer, Piece
from app.engine.cpu.packed_cache import LEAST_BYTES, Draft, PackedCache
from app.engine.gguf import GGUFFile
from app.engine.memory import private_memory

OnProgress = Callable[[int, int], None]
Block = NDArray[np.uint8]


@dataclass(frozen=True)
class _Work:
    """What is to be packed, and who is told of the bytes of the file that are done."""

    packer: Packer
    pieces: Sequence[Piece]
    threads: int
    report: OnProgress

    def run(self, pack: Callable[[Piece], None]) -> None:
        """Call `pack` for every piece, in several threads."""
        total, done = sum(piece.n_bytes for piece in self.pieces), 0
        with ThreadPoolExecutor(self.threads) as pool:
            for piece, _ in zip(self.pieces, pool.map(pack, self.pieces), strict=True):
                done += piece.n_bytes
                self.report(done, total)


def weight_block(
    gguf: GGUFFile, matrices: Sequence[PackedMatrix], n_bytes: int, kernels: Kernels, threads: int, report: OnProgress,
    cache_bytes: int, notify: Callable[[str], None],
) -> Block:  # fmt: skip
    """All of `matrices` at their places, uint8 [n_bytes]. cache_bytes: what all models may take on disk."""
    packer = Packer(gguf, kernels.pack, kernels.isa.lanes)
    work = _Work(packer, [piece for matrix in matrices for piece in packer.pieces(matrix)], threads, report)
    if cache_bytes and n_bytes >= LEAST_BYTES:
        tensors = [gguf.tensors[matrix.name] for matrix in matrices]
        places = [(matrix, tensor.part, tensor.offset) for matrix, tensor in zip(matrices, tensors, strict=True)]
        cache = PackedCache(gguf.paths, places, kernels.isa.lanes, n_bytes, cache_bytes, notify)
        weights = cache.find() or _packed_to_disk(cache, work)
        if weights is not None:
            return np.frombuffer(weights, np.uint8, n_bytes, mmap.PAGESIZE)
    return _packed_to_memory(n_bytes, work)


def _packed_to_memory(n_bytes: int, work: _Work) -> Block:
    block = np.frombuffer(private_memory(n_bytes, huge_pages=True), np.uint8)
    address = block.ctypes.data
    work.run(lambda piece: work.packer.pack(piece, address + piece.place))
    return block


def _packed_to_disk(cache: PackedCache, work: _Work) -> mmap.mmap | None:
    """The weights, mapped from a new file of the cache; None where there is no room for it."""
    draft = cache.draft()
    if draft is None:
        return None
    try:
        weights = _filled(draft, work)
    except OSError as error:
        draft.abandon()
        cache.failed(error)
        return None
    except BaseException:
        draft.abandon()
        raise
    cache.written()
    return weights


def _filled(draft: Draft, work: _Work) -> mmap.mmap:
    work.run(lambda piece: draft.write(work.packer.packed(piece).data, piece.place))
    return draft.finish()
