"""AMX: matrix tiles of int8. One product gives 16 tokens x 16 rows x 32 columns as exact int32.

Tile registers are named by numbers in the instructions: 0 holds the sums, 1 the activations, 2 the weights. Each thread
sets their shapes once a step and releases them at its end: while they hold something, each switch to another thread
saves 8 KB.
"""

from __future__ import annotations

import struct
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from app.engine.cpu.kernels.vectors import I8, I64, POINTER, call, intrinsic
from app.engine.cpu.layout import BLOCK, TILE_TOKENS

VOID = ir.VoidType()
SUMS, ACTIVATIONS, WEIGHTS = I8(0), I8(1), I8(2)
ROW_BYTES = (64, BLOCK, 64)  # of each register: 16 int32; 32 int8 of a token; four columns of 16 rows
ROWS = (TILE_TOKENS, TILE_TOKENS, BLOCK // 4)
SUM_BYTES = TILE_TOKENS * 64  # of a stored product: int32 [tokens, rows]

# What ldtilecfg reads: palette 1, start row 0, 14 bytes unused, 16 x bytes a row (u16), 16 x rows (u8).
CONFIGURATION = struct.pack("<BB14x16H16B", 1, 0, *ROW_BYTES, *[0] * 13, *ROWS, *[0] * 13)


@intrinsic
def configure_tiles(typing: Any) -> Any:
    """Give the tile registers of this thread their shapes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        content = ir.Constant(ir.ArrayType(I8, len(CONFIGURATION)), bytearray(CONFIGURATION))
        table = cgutils.global_constant(builder, "tile_configuration", content)
        call(builder, "llvm.x86.ldtilecfg", VOID, [builder.bitcast(table, POINTER)])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def release_tiles(typing: Any) -> Any:
    """Tell the processor that this thread's tile registers hold nothing."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        call(builder, "llvm.x86.tilerelease", VOID, [])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def multiply_tile(typing: Any, x: Any, weights: Any, sums: Any) -> Any:
    """sums = x * weights: int8 [16 tokens, 32], int8 [8, 16 rows, 4] and int32 [16 tokens, 16 rows] at addresses."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, weights, sums = (builder.inttoptr(arg, POINTER) for arg in args)
        call(builder, "llvm.x86.tilezero", VOID, [SUMS])
        call(builder, "llvm.x86.tileloadd64", VOID, [ACTIVATIONS, x, I64(BLOCK)])
        call(builder, "llvm.x86.tileloadd64", VOID, [WEIGHTS, weights, I64(64)])
        call(builder, "llvm.x86.tdpbssd", VOID, [SUMS, ACTIVATIONS, WEIGHTS])
        call(builder, "llvm.x86.tilestored64", VOID, [SUMS, sums, I64(64)])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate
