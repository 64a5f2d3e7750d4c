"""The one primitive that differs between instruction sets: the exact dot product of small integers.

`dot(weights, x, start)` takes a tuple of byte vectors. Vector j holds, for each row (lane), the four weights of columns
4j..4j+3 as four neighbouring bytes; `x` is the address of the int8 activations of the same columns. The result is one
int32 a row, added to `start`. Weights are signed (`limit` = SIGNED) or lie in 0..limit. Each implementation is exact,
so all of them agree bit for bit; where one needs its weights shifted, `shift_of` says what `start` must make good.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from app.engine.cpu.isa import InstructionSet
from app.engine.cpu.kernels.vectors import I8, I16, I32, Vector, broadcast, call, intrinsic, load_at

SIGNED = 128  # int8 weights; any other limit says that weights are unsigned and at most that large


def _quad(builder: Any, x: Any, j: int, lanes: int) -> Any:
    """Four activations (bytes 4j..4j+3) in every lane, as bytes."""
    word = load_at(builder, builder.add(x, ir.IntType(64)(4 * j)), I32, 4)
    return builder.bitcast(broadcast(builder, word, lanes), ir.VectorType(I8, 4 * lanes))


def _generic(builder: Any, weights: list[Any], x: Any, total: Any, lanes: int, limit: int) -> Any:
    """Plain 32-bit arithmetic, for any processor."""
    ints = ir.VectorType(I32, lanes)
    for j, vector in enumerate(weights):
        words = builder.bitcast(vector, ints)
        for byte in range(4):
            top = builder.shl(words, ir.Constant(ints, [24 - 8 * byte] * lanes))
            shift = ir.Constant(ints, [24] * lanes)
            weight = builder.ashr(top, shift) if limit == SIGNED else builder.lshr(top, shift)
            activation = builder.sext(load_at(builder, builder.add(x, ir.IntType(64)(4 * j + byte)), I8, 1), I32)
            total = builder.add(total, builder.mul(weight, broadcast(builder, activation, lanes)))
    return total


def _avx2(builder: Any, weights: list[Any], x: Any, total: Any, lanes: int, limit: int) -> Any:
    """vpmaddubsw into int16 pairs, vpmaddwd into int32.

    vpmaddubsw saturates: a pair of products is at most 2 * limit * 127, so up to 32767 // (2 * limit * 127) vectors are
    summed as int16 before they are widened. Signed weights go in as |w| * sign(w)x, at most 2 * 128 * 127 = 32512.
    """
    ints, shorts, octets = (ir.VectorType(kind, n * lanes) for kind, n in ((I32, 1), (I16, 2), (I8, 4)))
    ones = ir.Constant(shorts, [1] * 2 * lanes)
    run = max(1, 32767 // (2 * limit * 127))
    for first in range(0, len(weights), run):
        pairs = None
        for j in range(first, min(first + run, len(weights))):
            activations, unsigned = _quad(builder, x, j, lanes), weights[j]
            if limit == SIGNED:
                activations = call(builder, "llvm.x86.avx2.psign.b", octets, [activations, unsigned])
                unsigned = call(builder, f"llvm.abs.v{4 * lanes}i8", octets, [unsigned, ir.IntType(1)(0)])
            products = call(builder, "llvm.x86.avx2.pmadd.ub.sw", shorts, [unsigned, activations])
            pairs = products if pairs is None else builder.add(pairs, products)
        total = builder.add(total, call(builder, "llvm.x86.avx2.pmadd.wd", ints, [pairs, ones]))
    return total


def _vnni(builder: Any, weights: list[Any], x: Any, total: Any, lanes: int, limit: int) -> Any:
    """vpdpbusd takes unsigned weights: signed ones go in as w + 128. Two sums hide half of its latency."""
    ints, octets = ir.VectorType(I32, lanes), ir.VectorType(I8, 4 * lanes)
    top_bit = ir.Constant(octets, [-128] * 4 * lanes)
    name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"  # of AVX-VNNI too
    sums = [total, ir.Constant(ints, [0] * lanes)]
    for j, vector in enumerate(weights):
        unsigned = builder.xor(vector, top_bit) if limit == SIGNED else vector
        sums[j % 2] = call(builder, name, ints, [sums[j % 2], unsigned, _quad(builder, x, j, lanes)])
    return builder.add(*sums)


def _neon_dotprod(builder: Any, weights: list[Any], x: Any, total: Any, lanes: int, limit: int) -> Any:
    """sdot multiplies signed bytes, and all our weights are signed or at most 63; a register holds four rows.

    Four quads of activations are loaded at once: sdot can take any of them for all rows.
    """
    ints, octets, undefined = ir.VectorType(I32, 4), ir.VectorType(I8, 16), ir.Undefined

    def part(vector: Any, first: int, count: int) -> Any:
        picks = ir.Constant(ir.VectorType(I32, count), list(range(first, first + count)))
        return builder.shuffle_vector(vector, ir.Constant(vector.type, undefined), picks)

    sums = [part(total, row, 4) for row in range(0, lanes, 4)]
    for j, vector in enumerate(weights):
        if j % 4 == 0:
            quads = load_at(builder, builder.add(x, ir.IntType(64)(4 * j)), ints, 4)
        pick = ir.Constant(ints, [j % 4] * 4)
        quad = builder.bitcast(builder.shuffle_vector(quads, ir.Constant(ints, undefined), pick), octets)
        for i, of_rows in enumerate(sums):
            operands = [of_rows, part(vector, 16 * i, 16), quad]
            sums[i] = call(builder, "llvm.aarch64.neon.sdot.v4i32.v16i8", ints, operands)
    return builder.shuffle_vector(*sums, ir.Constant(ir.VectorType(I32, lanes), list(range(lanes))))


IMPLEMENTATIONS = {
    "amx": _vnni,
    "avx512-vnni": _vnni,
    "avx-vnni": _vnni,
    "avx2": _avx2,
    "neon-dotprod": _neon_dotprod,
    "generic": _generic,
}


def shift_of(isa: InstructionSet, limit: int) -> int:
    """What `dot` adds to each weight on its way: `start` has to be less by that much times the sum of x."""
    return 128 if IMPLEMENTATIONS[isa.name] is _vnni and limit == SIGNED else 0


def define_dot(isa: InstructionSet, limit: int) -> Any:
    """The `dot(weights, x, start)` of one instruction set for weights of one range."""
    implementation = IMPLEMENTATIONS[isa.name]

    @intrinsic
    def dot(typing: Any, weights: Any, x: Any, start: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vectors = [builder.extract_value(args[0], j) for j in range(len(weights))]
            return implementation(builder, vectors, args[1], args[2], isa.lanes, limit)

        ints = Vector("i32", isa.lanes)
        return ints(weights, types.intp, ints), generate

    return dot
