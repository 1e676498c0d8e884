"""Grouped asymmetric integers: KIVI's distortion on Gaussian input, and the groups that break careless code."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.math.affine import dequantize_groups, quantize_groups


def relative_mse(x: np.ndarray, bits: int, axis: int) -> float:
    got = dequantize_groups(*quantize_groups(x, bits, axis)).astype(np.float64)
    return float(((got - x) ** 2).sum() / (x.astype(np.float64) ** 2).sum())


@pytest.mark.parametrize(
    "bits, group, want",
    [(2, 32, 0.1544), (3, 32, 0.0281), (4, 32, 0.00612), (2, 64, 0.2027), (3, 64, 0.0369), (4, 128, 0.00994)],
)
def test_distortion_on_gaussian_groups(bits: int, group: int, want: float) -> None:
    x = np.random.default_rng(bits * group).standard_normal((20_000, group)).astype(np.float32)
    assert relative_mse(x, bits, axis=1) == pytest.approx(want, rel=0.01)


def test_axis_zero_is_the_transpose_of_axis_one() -> None:
    x = np.random.default_rng(3).standard_normal((32, 48)).astype(np.float32)
    for a, b in zip(quantize_groups(x, 3, axis=0), quantize_groups(np.ascontiguousarray(x.T), 3, axis=1)):
        np.testing.assert_array_equal(a, b.T)


def test_a_channel_offset_costs_nothing_per_channel_and_everything_per_token() -> None:
    """The ablation at the heart of KIVI: an outlier channel stretches the range of every group that holds it."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((4096, 32)).astype(np.float32)
    noise = float((x**2).sum())
    x[:, 5] += 25
    errors = []
    for groups in (x.reshape(-1, 32, 32).swapaxes(1, 2), x.reshape(-1, 1, 32)):  # per channel; per token
        groups = np.ascontiguousarray(groups)
        back = dequantize_groups(*quantize_groups(groups, 2, axis=2))
        errors.append(float(((back - groups).astype(np.float64) ** 2).sum()) / noise)
    assert errors[0] == pytest.approx(0.1544, rel=0.03)
    assert errors[1] > 10 * errors[0]


@pytest.mark.parametrize("value", [0.0, -0.0, 2.5, -65504.0, 6e-8])
def test_constant_group_is_exact(value: float) -> None:
    x = np.full((3, 32), value, np.float32)
    codes, step, low = quantize_groups(x, 2, axis=1)
    assert not step.any()
    assert not codes.any()
    np.testing.assert_array_equal(
        dequantize_groups(codes, step, low), x.astype(np.float16).astype(np.float32)
    )


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_integers_on_the_grid_come_back_exactly(bits: int) -> None:
    """When minimum and step are exact in float16 the round trip is exact, and all codes occur."""
    top = (1 << bits) - 1
    x = (np.arange(32) % (top + 1) * 0.5 - 3).astype(np.float32)[None]
    codes, step, low = quantize_groups(x, bits, axis=1)
    assert (float(step.item()), float(low.item())) == (0.5, -3.0)
    assert set(codes.reshape(-1).tolist()) == set(range(top + 1))
    np.testing.assert_array_equal(dequantize_groups(codes, step, low), x)


def test_error_is_at_most_half_a_stored_step_plus_rounding() -> None:
    x = (50 * np.random.default_rng(5).standard_normal((500, 32)) + 300).astype(np.float16).astype(np.float32)
    codes, step, low = quantize_groups(x, 4, axis=1)
    error = np.abs(dequantize_groups(codes, step, low) - x)
    # A step rounded down in float16 cannot reach the maximum: 15 of its rounding errors are missing at the top.
    assert (error <= step.astype(np.float32) * (0.5 + 15 * 2.0**-11) + 1e-3).all()
