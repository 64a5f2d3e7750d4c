"""Single kernels over buffers that a test fills: no decoder, and nothing that another kernel has made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.cuda.device import Buffer
from app.engine.cuda.kv_cache import head_stride
from app.engine.cuda.layout import (
    BLOCK,
    LANES,
    LAYER,
    MATRIX,
    SEGMENT,
    STEP,
    STEP_SIZES,
    TILE_GROUPS,
    TILE_THREADS,
    TILE_TOKENS,
)
from app.engine.cuda.program import attention_bytes, constants
from app.engine.cuda.weights import PACK_THREADS, DeviceMatrix, WeightPlan, plan_weights
from app.engine.gguf import read_gguf
from app.engine.spec import ModelSpec
from tests.conftest import DATA
from tests.engine.cuda.emulated_device import WARPS, EmulatedDevice, EmulatedProgram
from tests.engine.cuda.one_kernel.mathematics import About, Weights

Array = NDArray[Any]

N_HEADS, N_KV_HEADS, GROUP = 6, 2, 3
EPS = np.float32(1e-6)


@cache
def _model() -> tuple[ModelSpec, WeightPlan]:
    with read_gguf(DATA / "tiny-qwen3-2l-q8_0.gguf") as gguf:
        spec = ModelSpec.from_gguf(gguf)
        return spec, plan_weights(gguf, spec)


class BareKernels:
    """The kernels for one cache type and head size, and memory to run them on.

    With the f16 cache and heads of 128 it is the program of all formats that other tests have too.
    """

    def __init__(self, build: str, schedule: str, kv: str = "f16", head_dim: int = 128) -> None:
        spec, plan = _model()
        self.spec = replace(spec, head_dim=head_dim, n_heads=N_HEADS, n_kv_heads=N_KV_HEADS)
        self.kv, self.head_dim = kv, head_dim
        usual = (kv, head_dim) == ("f16", 128)
        self.step_sizes = STEP_SIZES if usual else (4,)
        self.device = EmulatedDevice(build, schedule, 11, all_formats=usual)
        program = self.device.compile(constants(self.spec, plan, kv, WARPS, self.step_sizes))
        assert isinstance(program, EmulatedProgram)
        self._program, self.kernels = program, set(program.module.kernels)
        self.launched: set[str] = set()
        self._kept: list[Buffer] = []  # freed with this object

    def room(self, n_bytes: int) -> Buffer:
        """Memory without a value."""
        self._kept.append(self.device.allocate(n_bytes))
        return self._kept[-1]

    def put(self, array: Array) -> Buffer:
        """Memory with a copy of the array."""
        buffer = self.room(array.nbytes)
        self.device.write(buffer, array)
        return buffer

    def read(self, buffer: Buffer, like: Array | type[np.generic] = np.uint8) -> Array:
        """The buffer's numbers, in the shape of an array or one after the other."""
        if isinstance(like, np.ndarray):
            out = np.empty_like(like)
        else:
            out = np.empty(buffer.n_bytes // np.dtype(like).itemsize, like)
        self.device.read(buffer, out)
        return out

    def launch(
        self, kernel: str, grid: tuple[int, ...], block: int, *arguments: Buffer | np.generic | int, shared: int = 0
    ) -> None:
        """An int is the kernel's int."""
        self.launched.add(kernel)
        plain = [np.int32(value) if isinstance(value, int) else value for value in arguments]
        self._program.launch(kernel, grid, block, plain, shared=shared)

    def pack(self, weights: Weights, paired_head: int = 0) -> tuple[DeviceMatrix, Buffer]:
        """A matrix's groups as pack_rows makes them from the rows of a file."""
        rows, columns = weights.values.shape
        matrix = DeviceMatrix("", weights.kind, weights.kind, rows, columns, 0, paired_head)
        packed = self.room(matrix.n_groups * matrix.group_bytes)
        self.device.clear(packed)
        row_bytes, n_blocks = weights.raw.nbytes // rows, columns // BLOCK
        self.launch("pack_rows", (2,), PACK_THREADS, self.put(weights.raw), packed, np.int64(0), int(weights.kind),
                    rows, row_bytes, n_blocks, paired_head, np.int64(matrix.group_bytes))  # fmt: skip
        return matrix, packed

    def matrix(self, weights: Weights) -> NDArray[np.void]:
        """Its entry in a table of layers."""
        matrix, packed = self.pack(weights)
        entry = np.zeros((), MATRIX)
        entry["data"], entry["group_bytes"], entry["format"] = packed.address, matrix.group_bytes, weights.kind
        entry["n_rows"], entry["n_groups"], entry["n_blocks"] = matrix.rows, matrix.n_groups, matrix.columns // BLOCK
        return entry

    def step(self, layer: Mapping[str, Any], **members: Any) -> Buffer:
        """What a step reads: members of layout.STEP, and those of its one layer; a buffer counts as its address."""
        table, step = np.zeros(1, LAYER), np.zeros((), STEP)
        for name, value in layer.items():
            table[0][name] = self.matrix(value) if isinstance(value, Weights) else _plain(value)
        step["n_layers"], step["n_heads"], step["n_kv_heads"] = 1, N_HEADS, N_KV_HEADS
        step["attention_scale"], step["head_stride"] = self.head_dim**-0.5, head_stride(self.spec, self.kv)
        step["layers"] = self.put(table).address
        for name, value in members.items():
            step[name] = self.matrix(value) if isinstance(value, Weights) else _plain(value)
        return self.put(step)

    def run_phase(self, size: int, step: Buffer, phase: int, columns: int, floats: bool = False) -> None:
        """One phase of step_1, step_2, .. whose rows have so many columns."""
        activations = -(-columns // BLOCK * size * 44 // 16) * 16 + columns * size * 4 * floats
        shared = max(2 * WARPS * size * LANES * 4 + activations, attention_bytes(self.spec))
        self.launch(f"step_{size}", (3,), WARPS * 32, step, phase, phase + 1, 0, shared=shared)

    def run_tiles(self, step: Buffer, kind: int, tokens: int, groups: int) -> None:
        """The products of a phase of a prompt, of so many groups of rows."""
        grid = (-(-tokens // TILE_TOKENS), -(-groups // TILE_GROUPS))
        self.launch("prefill_project", grid, TILE_THREADS, step, 0, kind, shared=2 * SEGMENT * TILE_TOKENS * 44)


def _plain(value: Any) -> Any:
    return value.address if hasattr(value, "address") else value


Result = tuple[str, Array, About]  # what it is, what came out, what mathematics says
Row = Callable[[BareKernels], Iterator[Result]]


def normal(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
