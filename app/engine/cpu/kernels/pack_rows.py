"""From the rows of a GGUF tensor to the groups that the products walk; `app.engine.cpu.pack` documents their planes.

A model starts no faster than its weights are rearranged, so this is compiled like the rest. Every value moves as it is,
in whole words of four columns where it can: nothing is rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from app.engine.cpu.kernels.scalars import load_i64 as word_at
from app.engine.cpu.kernels.vectors import I64, POINTER, intrinsic, jit, load_at
from app.engine.cpu.layout import BLOCK, SEGMENT, WORD, Packing
from app.engine.formats import FORMATS, GGMLType

LOW_NIBBLES, HIGH_NIBBLES = 0x0F0F0F0F, 0xF0F0F0F0
LOW_PAIRS, LOW_BITS = 0x03030303, 0x01010101
BIT_TO_BYTE = 0x00204081  # times a nibble: bit k of it is bit 8k of the product


def _define_copy(n_bytes: int) -> tuple[Any, Any]:
    """`load(address)` and `store(address, value)` of an unsigned number in memory, an int64 outside it."""
    stored = ir.IntType(8 * n_bytes)

    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.zext(load_at(builder, args[0], stored, 1), I64)

        return types.int64(types.intp), generate

    @intrinsic
    def store(typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = builder.trunc(args[1], stored)
            builder.store(number, builder.inttoptr(args[0], POINTER)).align = 1
            return context.get_dummy_value()

        return types.void(types.intp, types.int64), generate

    return load, store


load_u8, store_u8 = _define_copy(1)
load_u16, store_u16 = _define_copy(2)
load_u32, store_u32 = _define_copy(4)


@jit
def joined_nibbles(quads: int, shift: int) -> int:
    """Quad j in the low halves and quad j + 4 in the high ones, of nibbles that lie in one half of each byte."""
    low, high = load_u32(quads) >> shift, load_u32(quads + 16) >> shift
    return low & LOW_NIBBLES | (high & LOW_NIBBLES) << 4


@jit
def spread_bits(bits: int) -> int:
    """A bit for each column to four bytes: bit j of byte k is that of column 4j + k."""
    spread = 0
    for quad in range(8):
        spread |= ((bits >> 4 * quad & 15) * BIT_TO_BYTE & LOW_BITS) << quad
    return spread


def offsets(layout: np.dtype[np.void]) -> dict[str, int]:
    """Where each field of a block begins, in bytes."""
    return {name: int(place[1]) for name, place in (layout.fields or {}).items()}


def define_pack_plain(kind: GGMLType) -> Any:
    """`pack(source, row_bytes, n_blocks, lanes, target)` of one group, for a format with blocks of 32."""
    layout = FORMATS[kind].layout
    fields, block_bytes = offsets(layout), layout.itemsize
    has_min, has_bits = "m" in fields, "qh" in fields
    quads_at = fields["qs"]
    bits_at = quads_at - 4
    quads = (block_bytes - quads_at) // 4

    @jit
    def pack(source: int, row_bytes: int, n_blocks: int, lanes: int, target: int) -> None:
        cells = n_blocks * lanes
        minima = target + 2 * cells
        bits = minima + 2 * cells if has_min else minima
        words = bits + 4 * cells if has_bits else bits
        for block in range(n_blocks):
            for lane in range(lanes):
                here = source + lane * row_bytes + block * block_bytes
                cell = block * lanes + lane
                store_u16(target + 2 * cell, load_u16(here))
                if has_min:
                    store_u16(minima + 2 * cell, load_u16(here + 2))
                if has_bits:
                    store_u32(bits + 4 * cell, spread_bits(load_u32(here + bits_at)))
                for quad in range(quads):
                    word = load_u32(here + quads_at + 4 * quad)
                    store_u32(words + 4 * ((block * quads + quad) * lanes + lane), word)

    return pack


def define_pack_k(kind: GGMLType) -> Any:
    """The same for Q4_K and Q5_K, whose segments of 256 hold eight blocks."""
    layout = FORMATS[kind].layout
    fields, segment_bytes, has_bits = offsets(layout), layout.itemsize, kind == GGMLType.Q5_K
    scales_at, quads_at = fields["scales"], fields["qs"]
    bits_at = quads_at - 32

    @jit
    def pack(source: int, row_bytes: int, n_blocks: int, lanes: int, target: int) -> None:
        cells = n_blocks * lanes
        factors = cells // SEGMENT
        scales = target + 4 * factors
        bits = scales + 2 * cells
        words = bits + 4 * cells if has_bits else bits
        for segment in range(n_blocks // SEGMENT):
            for lane in range(lanes):
                here = source + lane * row_bytes + segment * segment_bytes
                factor = segment * lanes + lane
                store_u16(target + 2 * factor, load_u16(here))
                store_u16(target + 2 * (factors + factor), load_u16(here + 2))
                for part in range(SEGMENT):
                    cell = (segment * SEGMENT + part) * lanes + lane
                    # 12 bytes: 6 bits of scales 0-3, of minima 0-3, then 4 bits of both of 4-7, whose upper 2 bits
                    # top the earlier bytes
                    six = here + scales_at + part % 4
                    if part < 4:
                        scale, least = load_u8(six) & 63, load_u8(six + 4) & 63
                    else:
                        fours = load_u8(six + 8)
                        scale = fours & 15 | load_u8(six) >> 6 << 4
                        least = fours >> 4 | load_u8(six + 4) >> 6 << 4
                    store_u8(scales + cell, scale)
                    store_u8(scales + cells + cell, least)
                    if has_bits:
                        spread = 0
                        for quad in range(8):
                            spread |= (load_u32(here + bits_at + 4 * quad) >> part & LOW_BITS) << quad
                        store_u32(bits + 4 * cell, spread)
                    quads = here + quads_at + part // 2 * BLOCK
                    for quad in range(4):
                        word = joined_nibbles(quads + 4 * quad, part % 2 * 4)
                        store_u32(words + 4 * (((segment * SEGMENT + part) * 4 + quad) * lanes + lane), word)

    return pack


def define_pack_q6_k() -> Any:
    """The same for Q6_K: nibbles of four blocks, then pairs of bits of four blocks, share their bytes."""
    layout = FORMATS[GGMLType.Q6_K].layout
    fields, segment_bytes = offsets(layout), layout.itemsize
    pairs_at, scales_at, factor_at = fields["qh"], fields["scales"], fields["d"]

    @jit
    def pack(source: int, row_bytes: int, n_blocks: int, lanes: int, target: int) -> None:
        cells = n_blocks * lanes
        scales = target + 2 * (cells // SEGMENT)
        pairs = scales + 2 * cells
        words = pairs + 8 * cells
        for segment in range(n_blocks // SEGMENT):
            for lane in range(lanes):
                here = source + lane * row_bytes + segment * segment_bytes
                store_u16(target + 2 * (segment * lanes + lane), load_u16(here + factor_at))
                for part in range(SEGMENT):
                    block, half, quarter = segment * SEGMENT + part, part // 4, part % 4
                    for side in range(2):
                        cell = (block * 2 + side) * lanes + lane
                        store_u8(scales + cell, load_u8(here + scales_at + part * 2 + side))
                        two_bits = here + pairs_at + half * BLOCK + 16 * side
                        spread = 0
                        for quad in range(4):
                            spread |= (load_u32(two_bits + 4 * quad) >> 2 * quarter & LOW_PAIRS) << 2 * quad
                        store_u32(pairs + 4 * cell, spread)
                    quads = here + half * 2 * BLOCK + quarter % 2 * BLOCK
                    for quad in range(4):
                        word = joined_nibbles(quads + 4 * quad, quarter // 2 * 4)
                        store_u32(words + 4 * ((block * 4 + quad) * lanes + lane), word)

    return pack


def define_pack_floats(load: Any, store: Any, n_bytes: int) -> Any:
    """The same for weights that are numbers of `n_bytes` bytes."""

    @jit
    def pack(source: int, row_bytes: int, n_blocks: int, lanes: int, target: int) -> None:
        for column in range(n_blocks * BLOCK):
            for lane in range(lanes):
                value = load(source + lane * row_bytes + column * n_bytes)
                store(target + n_bytes * (column * lanes + lane), value)

    return pack


q8_0, q4_0, q4_1, q5_0, q5_1 = (
    define_pack_plain(kind) for kind in (GGMLType.Q8_0, GGMLType.Q4_0, GGMLType.Q4_1, GGMLType.Q5_0, GGMLType.Q5_1)
)
q4_k, q5_k, q6_k = define_pack_k(GGMLType.Q4_K), define_pack_k(GGMLType.Q5_K), define_pack_q6_k()
halves, floats = define_pack_floats(load_u16, store_u16, 2), define_pack_floats(load_u32, store_u32, 4)


@jit
def pack_rows(table: int, _: int) -> None:
    """Pack whole groups of rows; `table` holds Packing words."""
    kind, lanes = word_at(table + Packing.FORMAT * WORD), word_at(table + Packing.LANES * WORD)
    row_bytes, n_blocks = word_at(table + Packing.ROW_BYTES * WORD), word_at(table + Packing.N_BLOCKS * WORD)
    source, target = word_at(table + Packing.SOURCE * WORD), word_at(table + Packing.TARGET * WORD)
    group_bytes = word_at(table + Packing.GROUP_BYTES * WORD)
    for _group in range(word_at(table + Packing.N_GROUPS * WORD)):
        if kind == GGMLType.Q8_0:
            q8_0(source, row_bytes, n_blocks, lanes, target)
        elif kind == GGMLType.Q4_0:
            q4_0(source, row_bytes, n_blocks, lanes, target)
        elif kind == GGMLType.Q4_1:
            q4_1(source, row_bytes, n_blocks, lanes, target)
        elif kind == GGMLType.Q5_0:
            q5_0(source, row_bytes, n_blocks, lanes, target)
        elif kind == GGMLType.Q5_1:
            q5_1(source, row_bytes, n_blocks, lanes, target)
        elif kind == GGMLType.Q4_K:
            q4_k(source, row_bytes, n_blocks, lanes, target)
        elif kind == GGMLType.Q5_K:
            q5_k(source, row_bytes, n_blocks, lanes, target)
        elif kind == GGMLType.Q6_K:
            q6_k(source, row_bytes, n_blocks, lanes, target)
        elif kind == GGMLType.F32:
            floats(source, row_bytes, n_blocks, lanes, target)
        else:  # F16, BF16
            halves(source, row_bytes, n_blocks, lanes, target)
        source += lanes * row_bytes
        target += group_bytes
