"""Rotated vectors against a book: the closed forms of each scale rule, and the vectors that break careless code."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tq_core.math.books import BOOK_BITS, load_books, widths_for
from tq_core.math.lloyd_max import lloyd_max
from tq_core.math.quantize import (
    QUERY_MAX,
    NormMode,
    centroid_values,
    encode_rows,
    nearest_codes,
    quantize_symmetric,
)
from tq_core.math.rotation import StructuredRotation

HALF_ROUNDING = 2.0**-11


def encode(x: np.ndarray, rate: float, mode: NormMode, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rotation = StructuredRotation(x.shape[1], seed)
    return encode_rows(x, rotation.signs, rotation.hadamard, widths_for(rate, x.shape[1]), load_books(), mode)


def decode(x: np.ndarray, rate: float, mode: NormMode, seed: int = 1) -> np.ndarray:
    codes, scales = encode(x, rate, mode, seed)
    c = centroid_values(codes, widths_for(rate, x.shape[1]), load_books())
    rotated = scales.view(np.float16).astype(np.float32)[:, None] * c
    return StructuredRotation(x.shape[1], seed).inverse(rotated).astype(np.float64)


def relative_error(x: np.ndarray, x_hat: np.ndarray) -> np.ndarray:
    return ((x - x_hat) ** 2).sum(axis=1) / (x.astype(np.float64) ** 2).sum(axis=1)


@cache
def gaussian(d: int, n: int = 20_000) -> np.ndarray:
    return np.random.default_rng(d).standard_normal((n, d)).astype(np.float32)


@cache
def measured(d: int, rate: float, mode: NormMode) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Mean relative error, mean slope <x, x_hat> / ||x||^2, and both per vector... of d-dimensional Gaussians."""
    x = gaussian(d)
    x_hat = decode(x, rate, mode)
    errors = relative_error(x, x_hat)
    slopes = np.einsum("nd,nd->n", x, x_hat) / (x.astype(np.float64) ** 2).sum(axis=1)
    return float(errors.mean()), float(slopes.mean()), errors, slopes


# Relative error and slope at d = 128, from 60,000 vectors of an independent implementation.
TABLE = {
    NormMode.paper: {2: (0.1160, 0.8852), 3: (0.0340, 0.9673), 4: (0.00932, 0.9913)},
    NormMode.unbiased: {2: (0.1306, 1.0), 3: (0.0347, 1.0), 4: (0.00925, 1.0)},
    NormMode.min_mse: {2: (0.1153, 0.8847), 3: (0.0335, 0.9665), 4: (0.00916, 0.9908)},
    NormMode.matched: {2: (0.1189, 0.9406), 3: (0.0338, 0.9831), 4: (0.00918, 0.9954)},
}


@pytest.mark.parametrize("bits", BOOK_BITS)
@pytest.mark.parametrize("mode", NormMode, ids=lambda m: m.name)
def test_error_and_slope(mode: NormMode, bits: int) -> None:
    error, slope, _, _ = measured(128, float(bits), mode)
    want_error, want_slope = TABLE[mode][bits]
    assert error == pytest.approx(want_error, rel=0.01)
    assert slope == pytest.approx(want_slope, abs=0.003)


@pytest.mark.parametrize("d", [64, 80, 96, 112, 160])
def test_error_at_other_head_sizes(d: int) -> None:
    """One structured round on Gaussian input is as good as a Haar rotation: the sphere's own distortion within 1 %."""
    error, _, _, _ = measured(d, 3.0, NormMode.paper)
    assert error == pytest.approx(lloyd_max(8, d).distortion, rel=0.01)


def test_half_rates_are_the_mean_of_their_neighbours() -> None:
    low, mid, high = (measured(128, rate, NormMode.paper)[0] for rate in (3.0, 3.5, 4.0))
    assert mid == pytest.approx((low + high) / 2, rel=0.01)


@pytest.mark.parametrize("bits", BOOK_BITS)
def test_unbiased_keeps_every_inner_product_with_itself(bits: int) -> None:
    slopes = measured(128, float(bits), NormMode.unbiased)[3]
    assert np.abs(slopes - 1).max() < HALF_ROUNDING + 1e-5


@pytest.mark.parametrize("bits", BOOK_BITS)
def test_matched_keeps_every_norm(bits: int) -> None:
    x = gaussian(128)
    norms = np.linalg.norm(decode(x, float(bits), NormMode.matched), axis=1) / np.linalg.norm(
        x.astype(np.float64), axis=1
    )
    assert np.abs(norms - 1).max() < HALF_ROUNDING + 1e-5


@pytest.mark.parametrize("bits", BOOK_BITS)
def test_min_mse_is_least_for_every_vector(bits: int) -> None:
    """Up to float16: a scale off by 2^-11 costs at most its square, relative to ||x||^2."""
    best = measured(128, float(bits), NormMode.min_mse)[2]
    for mode in (NormMode.paper, NormMode.unbiased, NormMode.matched):
        assert (best <= measured(128, float(bits), mode)[2] + 2 * HALF_ROUNDING**2).all()


@pytest.mark.parametrize("mode", NormMode, ids=lambda m: m.name)
@pytest.mark.parametrize("d", [16, 80, 128])
def test_stored_scale_is_the_rule_rounded_to_float16(d: int, mode: NormMode) -> None:
    x = 40 * gaussian(d, 500)
    codes, scales = encode(x, 2.5, mode)
    widths = widths_for(2.5, d)
    c = centroid_values(codes, widths, load_books()).astype(np.float64)
    rho = np.linalg.norm(x.astype(np.float64), axis=1)
    t = np.sqrt(d) * StructuredRotation(d, 1).forward(x).astype(np.float64) / rho[:, None]
    tc, cc = (t * c).sum(axis=1), (c * c).sum(axis=1)
    rules = {
        NormMode.paper: rho / np.sqrt(d),
        NormMode.unbiased: rho * np.sqrt(d) / tc,
        NormMode.min_mse: rho * tc / (np.sqrt(d) * cc),
        NormMode.matched: rho / np.sqrt(cc),
    }
    stored = scales.view(np.float16).astype(np.float64)
    ulp = np.spacing(scales.view(np.float16)).astype(np.float64)
    assert (np.abs(stored - rules[mode]) <= (0.5 + 1e-2) * ulp).all()


@pytest.mark.parametrize("bits, want", [(2, 0.2605), (3, 0.0595), (4, 0.0033)])
def test_one_hot_is_flat_after_one_round_and_exact_under_a_fitted_scale(bits: int, want: float) -> None:
    """Every rotated coordinate is +-1, which the Gaussian book misses unless the scale is fitted."""
    x = 3 * np.eye(128, dtype=np.float32)
    np.testing.assert_allclose(relative_error(x, decode(x, float(bits), NormMode.paper)), want, atol=0.0006)
    for mode in (NormMode.min_mse, NormMode.matched, NormMode.unbiased):
        assert relative_error(x, decode(x, float(bits), mode)).max() < HALF_ROUNDING**2


@pytest.mark.parametrize("mode", NormMode, ids=lambda m: m.name)
@pytest.mark.parametrize("d", [16, 48, 80, 112, 256])
def test_unpleasant_vectors_stay_finite(d: int, mode: NormMode) -> None:
    x = np.zeros((7, d), np.float32)
    x[1], x[2, d // 3], x[3, 0], x[4] = 2.5, -4, 65504, 1e-7
    x[5, ::2] = 3000 / np.sqrt(d)
    x[6] = np.float32(-0.0)
    for rate in (2.0, 3.5, 4.0):
        _, scales = encode(x, rate, mode)
        assert np.isfinite(scales.view(np.float16)).all()
        x_hat = decode(x, rate, mode)
        assert np.isfinite(x_hat).all()
        assert not x_hat[[0, 6]].any()
        assert relative_error(x[[1, 2, 3, 5]], x_hat[[1, 2, 3, 5]]).max() < 0.45


@pytest.mark.parametrize("bits", BOOK_BITS)
def test_zero_vector_gets_the_lower_middle_code(bits: int) -> None:
    """t = 0 lies on the middle boundary; a tie goes to the lower cell."""
    codes, scales = encode(np.zeros((1, 32), np.float32), float(bits), NormMode.matched)
    assert (codes == (1 << bits) // 2 - 1).all()
    assert not scales.any()


@pytest.mark.parametrize("row, bits", list(enumerate(BOOK_BITS)))
def test_ties_and_their_neighbours(row: int, bits: int) -> None:
    """On a boundary the lower cell, one float above it the upper one."""
    books, n = load_books(), (1 << bits) - 1
    edges = np.zeros((1, 16), np.float32)
    edges[0, :n] = books.boundaries[row, :n]
    widths = np.array([bits], np.uint8)
    assert nearest_codes(edges, widths, books)[0, :n].tolist() == list(range(n))
    above = np.nextafter(edges, np.float32(np.inf))
    assert nearest_codes(above, widths, books)[0, :n].tolist() == list(range(1, n + 1))


def test_negation_mirrors_the_codes() -> None:
    x = gaussian(80, 300)
    codes, scales = encode(x, 3.5, NormMode.matched)
    mirrored, same = encode(-x, 3.5, NormMode.matched)
    top = np.repeat((1 << widths_for(3.5, 80).astype(int)) - 1, 16)
    np.testing.assert_array_equal(mirrored, top - codes)
    np.testing.assert_array_equal(same, scales)


@pytest.mark.parametrize("factor", [2.0**-9, 0.5, 64.0])
def test_powers_of_two_change_only_the_scale(factor: float) -> None:
    x = gaussian(112, 200)
    codes, scales = encode(x, 2.5, NormMode.min_mse)
    scaled_codes, scaled = encode(x * np.float32(factor), 2.5, NormMode.min_mse)
    np.testing.assert_array_equal(scaled_codes, codes)
    np.testing.assert_array_equal(scaled.view(np.float16), scales.view(np.float16) * np.float16(factor))


def test_symmetric_integers() -> None:
    x = np.random.default_rng(8).standard_normal((50, 67)).astype(np.float32)
    x[0], x[1] = 0, 1e-36
    q, step = quantize_symmetric(x)
    assert q.dtype == np.int32
    assert np.abs(q).max() == QUERY_MAX
    assert (np.abs(q[2:]).max(axis=1) == QUERY_MAX).all()
    assert not q[:2].any()
    assert step[0] == 0
    error = np.abs(q * step[:, None].astype(np.float64) - x)
    assert (error[2:] <= (0.5 + 0.01) * step[2:, None]).all()
    np.testing.assert_array_equal(quantize_symmetric(-x)[0], -q)
    assert quantize_symmetric(np.zeros((3, 0), np.float32))[1].tolist() == [0, 0, 0]
