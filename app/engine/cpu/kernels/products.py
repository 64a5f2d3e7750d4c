"""`multiply`: a group of packed rows times a step's activations, whatever the format and the size of the step."""

from __future__ import annotations

from typing import Any

from app.engine.cpu.isa import InstructionSet
from app.engine.cpu.kernels.matmul import define_float, define_q6_k, define_quantised
from app.engine.cpu.kernels.tile_products import define_tile_product
from app.engine.cpu.kernels.unpack import Lanes, define_readers
from app.engine.cpu.kernels.vectors import jit
from app.engine.cpu.layout import TILE_TOKENS
from app.engine.formats import GGMLType


def define_multiply(isa: InstructionSet) -> Any:
    """`multiply(format, group, n_blocks, x, n_tokens, out, stride, scratch)`: the rows of one group for every token.

    Row r of token t goes to float32 `out[t * stride bytes + r]`; `x` are the activations as in `matmul`; `scratch` has
    room for float32 [tokens, lanes] and for PANEL_BYTES.
    """
    lanes, readers = Lanes(isa), define_readers(isa)
    products = {
        kind: define_q6_k(isa, reader) if kind == GGMLType.Q6_K else define_quantised(isa, reader)
        for kind, reader in readers.items()
    }
    products[GGMLType.F16] = define_float(isa, lanes.load_f16, 2)
    products[GGMLType.BF16] = define_float(isa, lanes.load_bf16(), 2)
    products[GGMLType.F32] = define_float(isa, lanes.load, 4)
    any_step = dispatch(products, unknown_format)
    if not isa.tiles:
        return any_step
    tile_products = {kind: define_tile_product(isa, kind, reader) for kind, reader in readers.items()}
    large_step = dispatch(tile_products, any_step)

    @jit
    def multiply(
        kind: int, group: int, n_blocks: int, x: Any, n_tokens: int, out: int, stride: int, scratch: int
    ) -> None:
        if n_tokens >= TILE_TOKENS:
            large_step(kind, group, n_blocks, x, n_tokens, out, stride, scratch)
        else:
            any_step(kind, group, n_blocks, x, n_tokens, out, stride, scratch)

    return multiply


@jit
def unknown_format(
    kind: int, group: int, n_blocks: int, x: Any, n_tokens: int, out: int, stride: int, scratch: int
) -> None:
    """Never called: files with other formats are refused when they are read."""


def dispatch(products: dict[GGMLType, Any], otherwise: Any) -> Any:
    """`product(format, ...)` calls the product of that format, and `otherwise(format, ...)` for all others."""
    product = otherwise
    for kind, this in products.items():
        product = _either(int(kind), this, product)
    return product


def _either(wanted: int, this: Any, other: Any) -> Any:
    @jit
    def product(
        kind: int, group: int, n_blocks: int, x: Any, n_tokens: int, out: int, stride: int, scratch: int
    ) -> None:
        if kind == wanted:
            this(group, n_blocks, x, n_tokens, out, stride, scratch)
        else:
            other(kind, group, n_blocks, x, n_tokens, out, stride, scratch)

    return product
