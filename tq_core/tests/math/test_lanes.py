"""The order of float32 additions, spelled out in a loop, and its distance from exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tq_core.math.lanes import dot, exp2_f32, exp_f32, fold, lane_sum, round_even

EPS = float(np.finfo(np.float32).eps)
SIZES = (0, 1, 3, 15, 16, 17, 31, 48, 129)


def sum_by_the_contract(terms: np.ndarray) -> np.float32:
    """Element i to lane i % 16 in order; then lanes 8, 4, 2, 1 apart."""
    lanes = [np.float32(0)] * 16
    for i, term in enumerate(terms):
        lanes[i % 16] = np.float32(lanes[i % 16] + term)
    for apart in (8, 4, 2, 1):
        lanes = [np.float32(lanes[i] + lanes[i + apart]) for i in range(apart)]
    return lanes[0]


@pytest.mark.parametrize("n", SIZES)
def test_order_of_sums(n: int) -> None:
    a, b = (100 * np.random.default_rng(n).standard_normal((2, n))).astype(np.float32)
    assert lane_sum(a).tobytes() == sum_by_the_contract(a).tobytes()
    products = np.array(
        [np.float32(x * y) for x, y in zip(a, b)], np.float32
    )  # rounded before they are added
    assert dot(a, b).tobytes() == sum_by_the_contract(products).tobytes()


def test_the_order_matters_on_this_input() -> None:
    """Without this, the test above could pass for any order: here numpy's own sum gives other bits."""
    a = (100 * np.random.default_rng(1).standard_normal((50, 129))).astype(np.float32)
    assert (lane_sum(a) != a.sum(axis=-1)).any()
    assert (lane_sum(a) != np.add.accumulate(a, axis=-1)[:, -1]).any()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(n=st.integers(1, 300), seed=st.integers(0, 2**32 - 1), spread=st.floats(0, 6))
def test_dot_is_within_its_bound_of_float64(n: int, seed: int, spread: float) -> None:
    """|error| <= gamma_k sum |a b|: one product rounding, ceil(n/16) additions in a lane, 4 in the fold."""
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((2, n)) * 10 ** rng.uniform(-spread, spread, (2, n))).astype(np.float32)
    terms = a.astype(np.float64) * b.astype(np.float64)
    roundings = 1 + -(-n // 16) + 4
    bound = roundings * (EPS / 2) / (1 - roundings * EPS / 2) * np.abs(terms).sum()
    assert abs(float(dot(a, b)) - terms.sum()) <= bound + n * 2.0**-149  # the last term covers underflow


def test_dot_broadcasts() -> None:
    rng = np.random.default_rng(2)
    a, b = (
        rng.standard_normal((3, 1, 21)).astype(np.float32),
        rng.standard_normal((1, 5, 21)).astype(np.float32),
    )
    got = dot(a, b)
    assert got.shape == (3, 5)
    assert got.dtype == np.float32
    assert got[2, 4] == dot(a[2, 0], b[0, 4])


def test_fold() -> None:
    x = np.arange(16, dtype=np.float32)
    assert fold(x) == 120


def test_round_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4999998, 32638.5, -32639.4], np.float32)
    np.testing.assert_array_equal(round_even(x), np.rint(x))


def test_exp_within_two_ulp() -> None:
    x = np.linspace(-87, 88, 400_001).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    ulp = np.spacing(exact.astype(np.float32)).astype(np.float64)
    worst = float((np.abs(exp_f32(x).astype(np.float64) - exact) / ulp).max())
    assert worst <= 2.0


def test_exp_is_monotone_near_zero_and_exact_at_zero() -> None:
    assert exp_f32(np.float32(0)) == 1
    x = np.linspace(-2, 0, 20_001).astype(np.float32)
    steps = np.diff(exp_f32(x).astype(np.float64))
    assert steps.min() > -2e-7  # two ulp of 1 at most backwards


@pytest.mark.parametrize(
    "x, want", [(-87.00001, 0.0), (-1e30, 0.0), (-np.inf, 0.0), (89.0, None), (1e30, None), (np.inf, None)]
)
def test_exp_outside_its_range(x: float, want: float | None) -> None:
    """0 below -87; above 88 the value at 88, finite."""
    got = exp_f32(np.float32(x))
    assert got == (exp_f32(np.float32(88)) if want is None else want)
    assert np.isfinite(got)


def test_exp2_is_accurate_and_exact_at_integers() -> None:
    x = np.linspace(-125, 0, 400_001).astype(np.float32)
    exact = np.exp2(x.astype(np.float64))
    ulp = np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert float((np.abs(exp2_f32(x).astype(np.float64) - exact) / ulp).max()) <= 2.3
    whole = np.arange(-125, 128).astype(np.float32)
    np.testing.assert_array_equal(exp2_f32(whole), np.exp2(whole.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("x", [-125.00001, -1e30, -np.inf])
def test_exp2_below_its_range_is_zero(x: float) -> None:
    assert exp2_f32(np.float32(x)) == 0
