"""The weight formats that the engine runs: how their blocks lie in memory, and plain NumPy code to read and write them.

A quantised row is a sequence of blocks, each with its own scale. The layouts are those of ggml (`ggml-common.h`,
`ggml-quants.c`); a NumPy structured type states each of them once, and sizes, fields and offsets follow from it.
Nothing here is fast: the kernels have their own packed copies, and this module is what they are checked against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

F32Array = NDArray[np.float32]
U8Array = NDArray[np.uint8]


class GGMLType(IntEnum):
    """Tensor type ids of ggml. Most are known by name only, so that a message can say what a file holds.

    An id that is not in the list is still a value: `GGMLType(105)` is a member of no list with the name `type 105`.
    """

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q4_2 = 4
    Q4_3 = 5
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    Q4_0_4_4 = 31
    Q4_0_4_8 = 32
    Q4_0_8_8 = 33
    TQ1_0 = 34
    TQ2_0 = 35
    IQ4_NL_4_4 = 36
    IQ4_NL_4_8 = 37
    IQ4_NL_8_8 = 38
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41

    @classmethod
    def _missing_(cls, value: object) -> GGMLType | None:
        if not isinstance(value, int):
            return None
        unknown = int.__new__(cls, value)
        unknown._name_, unknown._value_ = f"type {value}", value
        return unknown

    @property
    def is_known(self) -> bool:
        """Whether ggml's name of this id is known here."""
        return self.name in GGMLType.__members__


@dataclass(frozen=True)
class Format:
    """The geometry of one runnable format: `block` weights in `n_bytes` bytes, laid out as `layout` says."""

    type: GGMLType
    block: int
    layout: np.dtype[np.void]

    @property
    def name(self) -> str:
        return self.type.name

    @property
    def n_bytes(self) -> int:
        """Bytes of one block."""
        return self.layout.itemsize


def _layout(*fields: tuple[str, str] | tuple[str, str, int]) -> np.dtype[np.void]:
    return np.dtype(list(fields))


_D, _M = ("d", "<f2"), ("m", "<f2")  # scale and minimum of a block; for K formats m is the scale of the minima
_K_SCALES = ("scales", "u1", 12)  # eight 6-bit scales and eight 6-bit minima

FORMATS: Mapping[GGMLType, Format] = MappingProxyType(
    {
        kind: Format(kind, block, layout)
        for kind, block, layout in (
            (GGMLType.F32, 1, _layout(("x", "<f4"))),
            (GGMLType.F16, 1, _layout(("x", "<f2"))),
            (GGMLType.BF16, 1, _layout(("x", "<u2"))),
            (GGMLType.Q4_0, 32, _layout(_D, ("qs", "u1", 16))),
            (GGMLType.Q4_1, 32, _layout(_D, _M, ("qs", "u1", 16))),
            (GGMLType.Q5_0, 32, _layout(_D, ("qh", "u1", 4), ("qs", "u1", 16))),
            (GGMLType.Q5_1, 32, _layout(_D, _M, ("qh", "u1", 4), ("qs", "u1", 16))),
            (GGMLType.Q8_0, 32, _layout(_D, ("qs", "i1", 32))),
            (GGMLType.Q4_K, 256, _layout(_D, _M, _K_SCALES, ("qs", "u1", 128))),
            (GGMLType.Q5_K, 256, _layout(_D, _M, _K_SCALES, ("qh", "u1", 32), ("qs", "u1", 128))),
            (GGMLType.Q6_K, 256, _layout(("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), _D)),
        )
    }
)
"""Exactly the formats that the engine runs."""


def dequantise(raw: U8Array, kind: GGMLType, n_columns: int) -> F32Array:
    """The weights in `raw` (whole rows, any shape, C order) as float32 [rows, n_columns].

    Bit-equal with ggml's own dequantisation. `kind` is a key of FORMATS (else KeyError); ValueError where `raw` does
    not hold whole rows of `n_columns` weights.
    """
    form = FORMATS[kind]
    if n_columns <= 0 or n_columns % form.block or raw.size % (n_columns // form.block * form.n_bytes):
        raise ValueError(f"{raw.size} bytes are not whole rows of {n_columns} {form.name} weights")
    blocks = np.ascontiguousarray(raw, np.uint8).reshape(-1).view(form.layout)
    return _DEQUANTISE[kind](blocks).reshape(-1, n_columns)


Blocks = NDArray[np.void]


def _f32(values: NDArray[np.generic]) -> F32Array:
    return values.astype(np.float32)


def _column(values: NDArray[np.generic]) -> F32Array:
    """[...] as float32 [..., 1], to scale the weights on a new last axis."""
    return _f32(values)[..., np.newaxis]


def _nibbles(qs: U8Array) -> U8Array:
    """[..., n] bytes as [..., 2, n]: all low halves, then all high halves."""
    return np.stack((qs & 0x0F, qs >> 4), axis=-2)


def _float32(blocks: Blocks) -> F32Array:
    """F32: one little-endian IEEE single."""
    return _f32(blocks["x"])


def _float16(blocks: Blocks) -> F32Array:
    """F16: one little-endian IEEE half."""
    return _f32(blocks["x"])


def _bfloat16(blocks: Blocks) -> F32Array:
    """BF16: the upper 16 bits of an IEEE single."""
    return (blocks["x"].astype(np.uint32) << 16).view(np.float32)


def _q4_0(blocks: Blocks) -> F32Array:
    """Q4_0, 18 bytes: half d; 16 bytes of nibbles, weight j in the low half of byte j, weight j+16 in its high half.

    w = d (q - 8)
    """
    q = _f32(_nibbles(blocks["qs"])).reshape(-1, 32) - np.float32(8)
    return _column(blocks["d"]) * q


def _q4_1(blocks: Blocks) -> F32Array:
    """Q4_1, 20 bytes: halves d and m; 16 bytes of nibbles as in Q4_0. w = d q + m"""
    q = _f32(_nibbles(blocks["qs"])).reshape(-1, 32)
    return _column(blocks["d"]) * q + _column(blocks["m"])


def _five_bits(blocks: Blocks) -> F32Array:
    """[blocks, 32] values 0..31 of Q5_0 and Q5_1: nibbles as in Q4_0, topped by bit j of the word `qh` for weight j."""
    low = _nibbles(blocks["qs"]).reshape(-1, 32)
    high = np.unpackbits(blocks["qh"], axis=-1, bitorder="little")
    return _f32(low | high << 4)


def _q5_0(blocks: Blocks) -> F32Array:
    """Q5_0, 22 bytes: half d; 32 fifth bits; 16 bytes of nibbles as in Q4_0. w = d (q - 16)"""
    return _column(blocks["d"]) * (_five_bits(blocks) - np.float32(16))


def _q5_1(blocks: Blocks) -> F32Array:
    """Q5_1, 24 bytes: halves d and m; 32 fifth bits; 16 bytes of nibbles as in Q4_0. w = d q + m"""
    return _column(blocks["d"]) * _five_bits(blocks) + _column(blocks["m"])


def _q8_0(blocks: Blocks) -> F32Array:
    """Q8_0, 34 bytes: half d; 32 signed bytes. w = d q"""
    return _column(blocks["d"]) * _f32(blocks["qs"])


def k_scales(scales: U8Array) -> tuple[U8Array, U8Array]:
    """The eight 6-bit scales and eight 6-bit minima of Q4_K and Q5_K: [blocks, 12] bytes to two [blocks, 8].

    Scales 0..3 are the low six bits of bytes 0..3 and minima 0..3 those of bytes 4..7. Of scales and minima 4..7, the
    low four bits share bytes 8..11 (scale in the low half) and the top two bits are those of bytes 0..3 and 4..7.
    """
    first, second, shared = scales[:, 0:4], scales[:, 4:8], scales[:, 8:12]
    scale = np.concatenate((first & 0x3F, shared & 0x0F | first >> 2 & 0x30), axis=-1)
    minimum = np.concatenate((second & 0x3F, shared >> 4 | second >> 2 & 0x30), axis=-1)
    return scale, minimum


def _scale_k(blocks: Blocks, q: U8Array) -> F32Array:
    """w = (d scale) q - (m minimum) for q [blocks, 8, 32], a scale and a minimum for every 32 weights."""
    scale, minimum = k_scales(blocks["scales"])
    d = _column(blocks["d"]) * _f32(scale)
    m = _column(blocks["m"]) * _f32(minimum)
    return d[..., np.newaxis] * _f32(q) - m[..., np.newaxis]


def _q4_k(blocks: Blocks) -> F32Array:
    """Q4_K, 144 bytes: halves d and m; 12 bytes of `k_scales`; 128 bytes of nibbles, every 32 bytes 64 weights, the low
    halves first.
    """
    q = _nibbles(blocks["qs"].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return _scale_k(blocks, q)


def _q5_k(blocks: Blocks) -> F32Array:
    """Q5_K, 176 bytes: as Q4_K with 32 bytes `qh` before the nibbles; bit s of byte j tops weight j of sub-block s."""
    low = _nibbles(blocks["qs"].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    high: U8Array = blocks["qh"][:, np.newaxis, :] >> np.arange(8, dtype=np.uint8)[:, np.newaxis] & np.uint8(1)
    return _scale_k(blocks, low | high << np.uint8(4))


def _q6_k(blocks: Blocks) -> F32Array:
    """Q6_K, 210 bytes: 128 bytes of low nibbles, 64 bytes of top bit pairs, 16 signed scales, half d.

    Each half of 128 weights owns 64 nibble bytes (low halves first) and 32 pair bytes (bits 0-1 top weights 0..31, bits
    2-3 weights 32..63, and so on); a scale serves 16 weights. w = (d scale) (q - 32)
    """
    low = _nibbles(blocks["ql"].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    high = blocks["qh"].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, np.newaxis] & 3
    q = _f32(low | high << 4).reshape(-1, 16, 16) - np.float32(32)
    d = _column(blocks["d"]) * _f32(blocks["scales"])
    return d[..., np.newaxis] * q


_DEQUANTISE: Mapping[GGMLType, Callable[[Blocks], F32Array]] = MappingProxyType(
    {
        GGMLType.F32: _float32,
        GGMLType.F16: _float16,
        GGMLType.BF16: _bfloat16,
        GGMLType.Q4_0: _q4_0,
        GGMLType.Q4_1: _q4_1,
        GGMLType.Q5_0: _q5_0,
        GGMLType.Q5_1: _q5_1,
        GGMLType.Q8_0: _q8_0,
        GGMLType.Q4_K: _q4_k,
        GGMLType.Q5_K: _q5_k,
        GGMLType.Q6_K: _q6_k,
    }
)


def _blocks_of_32(x: F32Array) -> F32Array:
    if x.ndim != 2 or x.shape[1] % 32:
        raise ValueError(f"shape {x.shape} is not rows of whole 32-blocks")
    return x.astype(np.float32, copy=False).reshape(-1, 32)


def _reciprocal(d: F32Array) -> F32Array:
    """1 / d, and 0 for an all-zero block."""
    return np.divide(np.float32(1), d, out=np.zeros_like(d), where=d != 0)


def quantise_q8_0(x: F32Array) -> U8Array:
    """Finite float32 [rows, columns] as Q8_0 bytes [rows, columns / 32 * 34], bit-equal with ggml's reference code.

    d = max|x| / 127, q = x / d rounded half away from zero; ValueError unless columns is a multiple of 32.
    """
    rows = _blocks_of_32(x)
    d = np.abs(rows).max(axis=1, keepdims=True) / np.float32(127)
    scaled = rows * _reciprocal(d)
    magnitude = np.abs(scaled)
    whole = np.floor(magnitude)
    rounded = whole + np.floor(2 * (magnitude - whole))  # x.5 goes up; magnitude + 0.5 could round up below x.5
    blocks = np.empty(len(rows), FORMATS[GGMLType.Q8_0].layout)
    blocks["d"] = d[:, 0]
    blocks["qs"] = np.copysign(rounded, scaled)
    return blocks.view(np.uint8).reshape(x.shape[0], -1)


def quantise_q4_0(x: F32Array) -> U8Array:
    """Finite float32 [rows, columns] as Q4_0 bytes [rows, columns / 32 * 18], bit-equal with ggml's reference code.

    The value of largest magnitude maps to -8 exactly: d = that value / -8, q = trunc(x / d + 8.5), at most 15.
    ValueError unless columns is a multiple of 32.
    """
    rows = _blocks_of_32(x)
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1, keepdims=True), axis=1)
    d = largest / np.float32(-8)
    q = np.minimum(rows * _reciprocal(d) + np.float32(8.5), 15).astype(np.uint8)
    blocks = np.empty(len(rows), FORMATS[GGMLType.Q4_0].layout)
    blocks["d"] = d[:, 0]
    blocks["qs"] = q[:, :16] | q[:, 16:] << 4
    return blocks.view(np.uint8).reshape(x.shape[0], -1)
