"""Formats against ggml's own NumPy code (the `gguf` package): the same bits, both ways."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from app.engine.formats import FORMATS, GGMLType, dequantise, k_scales, quantise_q4_0, quantise_q8_0
from tests.gguf_files import ALL_TYPES, quantise

RUNNABLE = [GGMLType[name] for name in ALL_TYPES]


def random_blocks(kind: GGMLType, n_blocks: int, seed: int) -> np.ndarray:
    """Blocks of random bytes whose scales are finite: every bit pattern of the packed fields is legal."""
    form = FORMATS[kind]
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, n_blocks * form.n_bytes, dtype=np.uint8).view(form.layout)
    for name in form.layout.names or ():
        if name in ("d", "m", "x"):
            blocks[name] = rng.standard_normal(n_blocks).astype(form.layout[name])
    return blocks.view(np.uint8)


def test_the_runnable_formats_are_those_of_the_design() -> None:
    assert {kind.name for kind in FORMATS} == set(ALL_TYPES)


@pytest.mark.parametrize("kind", gguf.GGMLQuantizationType, ids=lambda kind: kind.name)
def test_type_ids_and_block_sizes_are_ggmls(kind: gguf.GGMLQuantizationType) -> None:
    assert GGMLType(int(kind)).name == kind.name
    if GGMLType(int(kind)) in FORMATS:
        form = FORMATS[GGMLType(int(kind))]
        assert (form.block, form.n_bytes) == gguf.GGML_QUANT_SIZES[kind]


def test_an_unknown_type_id_keeps_its_number() -> None:
    unknown = GGMLType(0xFFFFFFFF)
    assert (unknown.value, unknown.name, unknown.is_known) == (0xFFFFFFFF, "type 4294967295", False)
    assert GGMLType.MXFP4.is_known
    assert unknown not in FORMATS
    assert GGMLType(105) == GGMLType(105) != GGMLType(106)


@pytest.mark.parametrize("kind", RUNNABLE, ids=lambda kind: kind.name)
def test_dequantise_gives_the_bits_of_ggml(kind: GGMLType) -> None:
    form = FORMATS[kind]
    rows, columns = 7, 3 * form.block
    for seed in range(5):
        raw = random_blocks(kind, rows * 3, seed)
        expected = gguf.quants.dequantize(raw.reshape(rows, -1), gguf.GGMLQuantizationType(int(kind)))
        found = dequantise(raw, kind, columns)
        assert found.shape == (rows, columns)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("kind", RUNNABLE, ids=lambda kind: kind.name)
def test_dequantise_takes_rows_in_any_shape_and_leaves_them_alone(kind: GGMLType) -> None:
    form = FORMATS[kind]
    raw = random_blocks(kind, 6, 1)
    before = raw.copy()
    flat = dequantise(raw, kind, 2 * form.block)
    np.testing.assert_array_equal(flat, dequantise(raw.reshape(3, -1), kind, 2 * form.block))
    for strided in (np.repeat(raw.reshape(3, -1), 2, axis=0)[::2], np.repeat(raw, 2)[::2]):
        np.testing.assert_array_equal(flat, dequantise(strided, kind, 2 * form.block))
    flat *= 2
    np.testing.assert_array_equal(raw, before)


@pytest.mark.parametrize(("size", "columns"), [(18, 16), (19, 32), (18, 64), (18, 0), (18, -32)])
def test_dequantise_refuses_bytes_that_are_not_whole_rows(size: int, columns: int) -> None:
    with pytest.raises(ValueError, match="whole rows"):
        dequantise(np.zeros(size, np.uint8), GGMLType.Q4_0, columns)


def test_dequantise_refuses_a_type_that_does_not_run() -> None:
    with pytest.raises(KeyError):
        dequantise(np.zeros(17, np.uint8), GGMLType.MXFP4, 32)


def test_k_scales_unpack_every_bit() -> None:
    """One bit at a time, each scale and minimum comes from where ggml's layout puts it."""
    for bit in range(96):
        packed = np.packbits(np.arange(96) == bit, bitorder="little")[None]
        scale, minimum = k_scales(packed)
        assert np.unpackbits(scale).sum() + np.unpackbits(minimum).sum() == 1
        assert max(scale.max(), minimum.max()) < 64
    scale, minimum = k_scales(np.arange(1, 13, dtype=np.uint8)[None] * 17)
    expected = gguf.quants.Q4_K.get_scale_min(np.arange(1, 13, dtype=np.uint8)[None] * 17)
    np.testing.assert_array_equal(scale, expected[0])
    np.testing.assert_array_equal(minimum, expected[1])


def hard_rows() -> np.ndarray:
    """float32 [rows, 64] with what rounding gets wrong: ties, zeros, tiny and large blocks, equal magnitudes."""
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal(64) * scale for scale in (1e-6, 1e-3, 1, 100) for _ in range(50)]
    rows += [np.zeros(64), -np.zeros(64), np.full(64, 3.0), np.full(64, -3.0)]
    rows += [np.tile([127, 0.5, -0.5, 1.5, -1.5, 2.5, 126.5, -126.5], 8)]  # exact ties of q8_0
    rows += [np.tile([-8, 8, 0.5, -0.5, 7.5, -7.5, 1.5, 3.5], 8), np.tile([8, -8, 0.49999997, -0.49999997], 16)]
    rows += [np.tile([127, 0.49999997, -0.49999997, 0.50000006], 16)]
    return np.array(rows, np.float32)


@pytest.mark.parametrize(("function", "kind"), [(quantise_q8_0, "Q8_0"), (quantise_q4_0, "Q4_0")])
def test_quantise_gives_the_bytes_of_ggml(function, kind: str) -> None:
    x = hard_rows()
    found = function(x)
    np.testing.assert_array_equal(found, gguf.quants.quantize(x, gguf.GGMLQuantizationType[kind]))
    assert found.dtype == np.uint8
    assert found.shape == (len(x), 2 * FORMATS[GGMLType[kind]].n_bytes)


@pytest.mark.parametrize("function", [quantise_q8_0, quantise_q4_0])
def test_quantise_refuses_part_blocks(function) -> None:
    with pytest.raises(ValueError, match="32-blocks"):
        function(np.zeros((2, 48), np.float32))
    with pytest.raises(ValueError, match="32-blocks"):
        function(np.zeros(64, np.float32))


@pytest.mark.parametrize(
    ("kind", "limit"),
    list(
        {
            "F32": 0,
            "F16": 3e-4,
            "BF16": 2e-3,
            "Q8_0": 6e-3,
            "Q6_K": 0.02,
            "Q5_K": 0.04,
            "Q5_1": 0.04,
            "Q5_0": 0.045,
            "Q4_K": 0.08,
            "Q4_1": 0.08,
            "Q4_0": 0.09,
        }.items()
    ),
)
def test_a_quantised_row_comes_back_close(kind: str, limit: float) -> None:
    """Also guards the test writer: relative RMS error on normal weights is what the format's bits allow."""
    x = np.random.default_rng(3).standard_normal((16, 512)).astype(np.float32)
    back = dequantise(quantise(x, kind), GGMLType[kind], 512)
    assert np.sqrt(((x - back) ** 2).mean() / (x**2).mean()) <= limit
