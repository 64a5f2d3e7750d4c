"""Reading memory as fast as this machine can: the limit that decoding is measured against."""

from __future__ import annotations

from app.engine.cpu.kernels.scalars import load_i64 as word_at
from app.engine.cpu.kernels.scalars import store_i32
from app.engine.cpu.kernels.vectors import I32X16, define_load, define_splat, jit
from app.engine.cpu.kernels.wide import add16_i32, sum16_i32
from app.engine.cpu.layout import WORD, Stream

load16_i32, splat16_i32 = define_load(I32X16), define_splat(I32X16)
STRIDE = 256  # bytes a turn of the loop


@jit
def stream_read(table: int, tid: int) -> None:
    """Sum this thread's share of a block of memory; `table` holds Stream words."""
    address, n_bytes = word_at(table + Stream.ADDRESS * WORD), word_at(table + Stream.N_BYTES * WORD)
    turns = n_bytes // STRIDE // word_at(table + Stream.N_THREADS * WORD)
    start = address + tid * turns * STRIDE
    zero = splat16_i32(0)
    a, b, c, d = zero, zero, zero, zero
    for turn in range(turns):
        here = start + turn * STRIDE
        a = add16_i32(a, load16_i32(here))
        b = add16_i32(b, load16_i32(here + 64))
        c = add16_i32(c, load16_i32(here + 128))
        d = add16_i32(d, load16_i32(here + 192))
    total = sum16_i32(add16_i32(add16_i32(a, b), add16_i32(c, d)))
    store_i32(word_at(table + Stream.SUMS * WORD) + tid * 4, total)
