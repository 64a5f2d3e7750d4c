"""LLVM IR of loops over `dot` alone, as JSON: `python -m tests.engine.cpu.dot_kernels ISA ...`.

It runs in a process of its own, because making IR without machine code changes numba for the whole process. The table
of an entry holds the addresses of int8 weights [cases, quads, lanes, 4], int8 x [cases, quads * 4], int32 starts
[cases] and int32 sums [cases, lanes], and the number of cases.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from app.engine.cpu.compile import entry_ir, skip_machine_code
from app.engine.cpu.isa import INSTRUCTION_SETS, InstructionSet
from app.engine.cpu.kernels.dot import SIGNED, define_dot
from app.engine.cpu.kernels.scalars import load_i32, load_i64
from app.engine.cpu.kernels.unpack import Lanes, define_readers, define_unpack_bytes
from app.engine.cpu.kernels.vectors import define_store, jit
from app.engine.formats import GGMLType


def define_dots(isa: InstructionSet, limit: int, quads: int) -> Any:
    """Many dot products of a whole block (8 quads) or of half a block (4)."""
    lanes, case_bytes = Lanes(isa), 4 * quads * isa.lanes
    dot, store, splat = define_dot(isa, limit), define_store(lanes.ints), lanes.splat_int
    unpack, row_bytes, quad_bytes = define_unpack_bytes(lanes, isa.lanes), 4 * isa.lanes, 4 * quads

    @jit
    def half(address: int, _: int) -> Any:
        w0, w1, w2, w3, _w4, _w5, _w6, _w7 = unpack(address, 0)
        return w0, w1, w2, w3

    weights_of = unpack if quads == 8 else half

    @jit
    def dots(table: int, tid: int) -> None:
        weights, x, starts, sums = load_i64(table), load_i64(table + 8), load_i64(table + 16), load_i64(table + 24)
        for i in range(load_i64(table + 32)):
            start = splat(load_i32(starts + i * 4))
            store(sums + i * row_bytes, dot(weights_of(weights + i * case_bytes, 0), x + i * quad_bytes, start))

    return dots


def asked_of(isa: InstructionSet) -> dict[GGMLType, tuple[int, int]]:
    """What each quantised format asks of `dot`: the range of its weights, and how many quads at once."""
    return {
        kind: (SIGNED if reader.bits == 8 else 2**reader.bits - 1, 4 if kind == GGMLType.Q6_K else 8)
        for kind, reader in define_readers(isa).items()
    }


def entry_name(limit: int, quads: int) -> str:
    """The entry for weights of one range."""
    return f"dots_{limit}_{quads}"


def all_ir(isa: InstructionSet) -> dict[str, str]:
    """The entries of one set for all formats."""
    return {
        entry_name(*asked): entry_ir(entry_name(*asked), define_dots(isa, *asked))
        for asked in sorted(set(asked_of(isa).values()))
    }


if __name__ == "__main__":
    skip_machine_code()
    json.dump({isa.name: all_ir(isa) for isa in INSTRUCTION_SETS if isa.name in sys.argv[1:]}, sys.stdout)
