"""Tests that show which metric can see which fault."""

from __future__ import annotations

import numpy as np

from tq_core.math.books import load_books, widths_for
from tq_core.math.quantize import NormMode, centroid_values, encode_rows
from tq_core.math.rotation import StructuredRotation


def _two_bit_estimates() -> tuple[np.ndarray, np.ndarray]:
    """True and estimated inner products of random queries with keys stored at 2 bits, scale rule S = 1."""
    d, n = 128, 8_000
    rng, rotation, widths = np.random.default_rng(6), StructuredRotation(d, 1), widths_for(2.0, d)
    k = rng.standard_normal((n, d)).astype(np.float32)
    codes, scales = encode_rows(k, rotation.signs, rotation.hadamard, widths, load_books(), NormMode.paper)
    stored = scales.view(np.float16).astype(np.float32)[:, None] * centroid_values(
        codes, widths, load_books()
    )
    decoded = rotation.inverse(stored).astype(np.float64)
    q = 0.6 * k + 0.8 * rng.standard_normal((n, d))  # correlated with the keys, else every slope looks alike
    return np.einsum("nd,nd->n", q, k), np.einsum("nd,nd->n", q, decoded)


def test_mean_error_over_random_pairs_cannot_see_a_slope() -> None:
    """With independent queries the truth averages to zero, so an estimator that shrinks by 0.88 has no mean error."""
    rng = np.random.default_rng(7)
    truth = rng.standard_normal(200_000) * np.sqrt(128)
    shrunk = 0.88 * truth
    assert abs(float((shrunk - truth).mean())) < 4 * 0.12 * np.sqrt(128 / 200_000)  # looks unbiased
    assert abs(float(truth @ shrunk / (truth @ truth)) - 0.88) < 1e-12  # and is not


def test_regression_sees_the_slope_of_the_real_codec() -> None:
    truth, estimate = _two_bit_estimates()
    slope = float(truth @ estimate / (truth @ truth))
    assert 0.87 < slope < 0.90  # 1 - D(2 bits) = 0.885
    residual = estimate - slope * truth
    assert abs(float(residual.mean())) < 0.02 * float(np.abs(truth).mean())
