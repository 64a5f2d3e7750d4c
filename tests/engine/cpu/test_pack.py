"""The compiled packing against the page of `app.engine.cpu.pack`, written in NumPy in `planes.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.engine.cpu.isa import choose
from app.engine.cpu.library import Kernels, load_kernels
from app.engine.cpu.pack import PackedMatrix, Packer, row_bytes
from app.engine.formats import FORMATS, GGMLType, dequantise, quantise_q4_0
from app.engine.gguf import read_gguf
from app.engine.rope import pairs_to_halves
from tests.engine.cpu import planes
from tests.gguf_files import RawTensor, assemble

COLUMNS = 512
U8Array = NDArray[np.uint8]


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return load_kernels(choose(), print)


def random_rows(kind: GGMLType, n_rows: int) -> U8Array:
    """Any bytes: packing must not care what the numbers are."""
    form = FORMATS[kind]
    return np.random.default_rng(kind).integers(0, 256, (n_rows, COLUMNS // form.block * form.n_bytes), dtype=np.uint8)


def packed(
    folder: Path, kernels: Kernels, kind: GGMLType, raw: U8Array, lanes: int, head_dim: int = 0,
    packed_kind: GGMLType | None = None,
) -> U8Array:  # fmt: skip
    """`raw` written to a file and packed from there, piece by piece; [groups, group bytes]."""
    path = folder / "one.gguf"
    path.write_bytes(assemble(tensors=[RawTensor("w", (COLUMNS, len(raw)), kind, raw.tobytes())]))
    matrix = PackedMatrix("w", kind, packed_kind or kind, len(raw), COLUMNS, 0, head_dim)
    out = np.full((matrix.n_groups(lanes), matrix.group_bytes(lanes)), 0xEE, np.uint8)
    with read_gguf(path) as gguf:
        packer = Packer(gguf, kernels.pack, lanes)
        pieces = packer.pieces(matrix)
        assert sum(piece.n_bytes for piece in pieces) == raw.nbytes
        for piece in pieces:
            packer.pack(piece, out.ctypes.data + piece.place)
            groups = packer.packed(piece)
            assert np.array_equal(groups, out.reshape(-1)[piece.place : piece.place + groups.size])
    assert pieces[0].first == 0 and pieces[-1].last == len(raw)
    return out


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)
def test_every_format_lies_in_its_planes(tmp_path: Path, kernels: Kernels, kind: GGMLType, lanes: int) -> None:
    raw = random_rows(kind, 5 * lanes)
    want = planes.pack(raw, kind, lanes)
    assert want.shape[1] == lanes * row_bytes(kind, COLUMNS)
    assert np.array_equal(packed(tmp_path, kernels, kind, raw, lanes), want)


def test_rows_of_zeros_fill_the_last_group(tmp_path: Path, kernels: Kernels) -> None:
    raw = random_rows(GGMLType.Q4_K, 21)
    filled = np.concatenate((raw, np.zeros((11, raw.shape[1]), np.uint8)))
    assert np.array_equal(packed(tmp_path, kernels, GGMLType.Q4_K, raw, 16), planes.pack(filled, GGMLType.Q4_K, 16))


def test_a_matrix_of_many_pieces_is_that_of_one(tmp_path: Path, kernels: Kernels) -> None:
    raw = random_rows(GGMLType.F32, 16 * 70)  # 2.3 MB, more than two pieces
    assert np.array_equal(packed(tmp_path, kernels, GGMLType.F32, raw, 16), planes.pack(raw, GGMLType.F32, 16))


def test_the_rows_of_a_head_are_put_from_pairs_to_halves(tmp_path: Path, kernels: Kernels) -> None:
    raw = random_rows(GGMLType.Q8_0, 192)
    order = np.concatenate([head * 64 + pairs_to_halves(64) for head in range(3)])
    want = planes.pack(raw[order], GGMLType.Q8_0, 16)
    assert np.array_equal(packed(tmp_path, kernels, GGMLType.Q8_0, raw, 16, head_dim=64), want)


def test_a_head_in_another_format_is_rounded_before_it_is_packed(tmp_path: Path, kernels: Kernels) -> None:
    weights = np.random.default_rng(1).standard_normal((32, COLUMNS)).astype(np.float32)
    raw = weights.view(np.uint8)
    want = planes.pack(quantise_q4_0(dequantise(raw, GGMLType.F32, COLUMNS)).reshape(32, -1), GGMLType.Q4_0, 16)
    got = packed(tmp_path, kernels, GGMLType.F32, raw, 16, packed_kind=GGMLType.Q4_0)
    assert np.array_equal(got, want)
