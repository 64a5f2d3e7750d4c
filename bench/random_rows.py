"""Random weights made on the card, in any format of a file, with scales of which nothing overflows: random_rows.cu."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from app.engine.cuda.device import Buffer, Device
from app.engine.formats import FORMATS, GGMLType, dequantise

THREADS, BLOCKS = 256, 1024
_SOURCE = Path(__file__).with_name("random_rows.cu")
_SAMPLE = 4096  # blocks from which the spread of a format is known

# Where a block has float16 scales, and how large they are to each other: minima take off the average of the numbers.
_SCALES: Mapping[GGMLType, Mapping[int, float]] = MappingProxyType(
    {
        GGMLType.Q8_0: {0: 1},
        GGMLType.Q4_0: {0: 1},
        GGMLType.Q4_1: {0: 1, 2: -7.5},
        GGMLType.Q5_0: {0: 1},
        GGMLType.Q5_1: {0: 1, 2: -15.5},
        GGMLType.Q4_K: {0: 1, 2: 7.5},
        GGMLType.Q5_K: {0: 1, 2: 15.5},
        GGMLType.Q6_K: {208: 1},
    }
)
_FLOATS: Mapping[GGMLType, tuple[str, int, int]] = MappingProxyType(
    {  # type of their bits, bits of the mantissa, bias of the exponent
        GGMLType.F32: ("<u4", 23, 127),
        GGMLType.F16: ("<u2", 10, 15),
        GGMLType.BF16: ("<u2", 7, 127),
    }
)


@dataclass(frozen=True)
class Block:
    """uint8 [bytes of a block]: the bits that are drawn, and the values of the others."""

    drawn: NDArray[np.uint8]
    fixed: NDArray[np.uint8]


def block(kind: GGMLType, spread: float) -> Block:
    """A block whose weights have about this standard deviation."""
    if kind in _FLOATS:
        dtype, mantissa, bias = _FLOATS[kind]
        exponent = int(np.floor(np.log2(spread / 1.5))) + bias  # numbers of +-[e, 2e) are 1.5 e on average
        sign = 1 << 8 * np.dtype(dtype).itemsize - 1
        bits = np.array([sign | (1 << mantissa) - 1, exponent << mantissa], dtype)
        return Block(*bits.view(np.uint8).reshape(2, -1))
    sample = sample_rows(_quantised(kind, 1.0), _SAMPLE, np.random.default_rng(0))
    found = float(dequantise(sample.reshape(1, -1), kind, _SAMPLE * FORMATS[kind].block).std())
    return _quantised(kind, spread / found)


def sample_rows(made: Block, n_blocks: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """So many blocks, drawn here: uint8 [blocks, bytes]."""
    return rng.integers(0, 256, (n_blocks, len(made.drawn)), np.uint8) & made.drawn | made.fixed


def _quantised(kind: GGMLType, scale: float) -> Block:
    drawn, fixed = np.full(FORMATS[kind].n_bytes, 255, np.uint8), np.zeros(FORMATS[kind].n_bytes, np.uint8)
    for place, factor in _SCALES[kind].items():
        drawn[place : place + 2] = 0
        fixed[place : place + 2] = np.array([factor * scale], "<f2").view(np.uint8)
    return Block(drawn, fixed)


class RandomRows:
    """Makes rows on one device."""

    def __init__(self, device: Device) -> None:
        self._device, self._program = device, device.compile({}, _SOURCE)
        self._blocks: dict[tuple[GGMLType, int], tuple[Buffer, Buffer]] = {}
        self._seed = 0

    def make(self, target: Buffer, kind: GGMLType, columns: int, rows: int) -> None:
        """`rows` rows at the beginning of `target`; a product with them is about as large as what comes in."""
        n_bytes = rows * columns // FORMATS[kind].block * FORMATS[kind].n_bytes
        drawn, fixed = self._block(kind, columns)
        self._seed += 1
        self._program.launch(
            "random_rows", (min(BLOCKS, -(-n_bytes // THREADS)),), THREADS,
            (target, np.int64(n_bytes), drawn, fixed, np.int32(drawn.n_bytes), np.uint32(self._seed)),
        )  # fmt: skip

    def _block(self, kind: GGMLType, columns: int) -> tuple[Buffer, Buffer]:
        if (kind, columns) not in self._blocks:
            made = block(kind, columns**-0.5)
            drawn, fixed = (self._device.allocate(part.nbytes) for part in (made.drawn, made.fixed))
            self._device.write(drawn, made.drawn)
            self._device.write(fixed, made.fixed)
            self._blocks[kind, columns] = drawn, fixed
        return self._blocks[kind, columns]
