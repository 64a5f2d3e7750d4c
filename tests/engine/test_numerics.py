"""The NumPy form of the numerics contract against float64 mathematics."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from app.engine import numerics
from app.engine.formats import FORMATS, GGMLType, dequantise
from tests.gguf_files import quantise

RNG = np.random.default_rng(11)


def normal(*shape: int) -> NDArray[np.float32]:
    return RNG.standard_normal(shape, dtype=np.float32)


def relative_error(got: NDArray[np.float32], wanted: NDArray[np.float64]) -> float:
    return float(np.abs(got - wanted).max() / np.abs(wanted).max())


def test_exp_is_within_two_units_in_the_last_place() -> None:
    x = np.concatenate((np.linspace(-87, 88, 400_001), [0.0, -0.0, 1e-30])).astype(np.float32)
    wanted = np.exp(x.astype(np.float64))
    assert np.abs(numerics.exp(x) / wanted - 1).max() < 2.4e-7


def test_exp_ends_in_zero_below_and_in_a_number_above() -> None:
    got = numerics.exp(np.array([-87.5, -1e30, -np.inf, 0.0, 90.0, 1e30], np.float32))
    assert got[:4].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert np.isfinite(got).all()


@pytest.mark.parametrize("n", [32, 64, 96, 576, 896])
def test_rms_norm(n: int) -> None:
    x, weight = normal(3, n), normal(n)
    wide = x.astype(np.float64)
    wanted = wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + 1e-6) * weight
    assert relative_error(numerics.rms_norm(x, weight, 1e-6), wanted) < 5e-7


def test_quantise_keeps_zeros_and_reaches_127() -> None:
    x = normal(2, 64)
    x[0, :32] = 0
    got = numerics.quantise(x)
    assert got.scales[0, 0] == 0 and not got.values[0, 0].any()
    assert np.abs(got.values[1]).max() == 127
    assert np.abs(got.values * got.scales[..., np.newaxis] - x.reshape(2, 2, 32)).max() <= got.scales.max() / 2 * 1.001


@pytest.mark.parametrize("size", [1e-45, 1e-38, 9e-37])
def test_a_block_of_numbers_too_small_to_quantise_counts_as_zeros(size: float) -> None:
    got = numerics.quantise(np.full((1, 32), size, np.float32))
    assert not got.values.any() and np.isfinite(got.scales).all()


@pytest.mark.parametrize("kind", FORMATS)
def test_multiply_is_the_product_with_the_dequantised_matrix(kind: GGMLType) -> None:
    x, columns = normal(3, 512), 512
    raw = quantise(normal(24, columns), kind.name).view(np.uint8).reshape(-1)
    weights = dequantise(raw, kind, columns).astype(np.float64)
    activations = x.astype(np.float64)
    if FORMATS[kind].block > 1:
        parts = numerics.quantise(x)
        activations = (parts.values.astype(np.float64) * parts.scales[..., np.newaxis]).reshape(x.shape)
    assert relative_error(numerics.multiply(x, raw, kind), activations @ weights.T) < 2e-6


def test_attend_is_softmax_attention_over_several_chunks() -> None:
    q, keys, values = normal(3, 64), normal(300, 3, 64), normal(300, 3, 64)
    scores = np.einsum("hd,phd->hp", q.astype(np.float64), keys) / 8
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = np.einsum("hp,phd->hd", weights / weights.sum(axis=1, keepdims=True), values)
    assert relative_error(numerics.attend(q, keys, values), wanted) < 2e-6


def test_rotate_turns_each_pair_by_its_angle() -> None:
    x, angles = normal(4, 2, 32), RNG.uniform(0, 6, (4, 16))
    got = numerics.rotate(x, np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32))
    turned = (x[..., :16] + 1j * x[..., 16:]) * np.exp(1j * angles)[:, np.newaxis]
    assert relative_error(got, np.concatenate((turned.real, turned.imag), axis=-1)) < 3e-7


def test_silu_times() -> None:
    gate, up = normal(1000) * 20, normal(1000)
    wanted = gate.astype(np.float64) / (1 + np.exp(-gate.astype(np.float64))) * up
    assert relative_error(numerics.silu_times(gate, up), wanted) < 5e-7


@pytest.mark.parametrize(("kind", "bound"), [("f32", 0.0), ("f16", 5e-4), ("q8_0", 5e-3)])
def test_cached_values_are_as_close_as_their_type(kind: str, bound: float) -> None:
    x = normal(5, 2, 64)
    assert relative_error(numerics.cached(x, kind), x.astype(np.float64)) <= bound
