"""Coordinate descent under a metric: what it gains, that it cannot lose, and its edges."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.math.books import load_books, widths_for
from tq_core.math.quantize import NormMode, centroid_values, encode_rows
from tq_core.math.rotation import StructuredRotation
from tq_core.math.shaping import shape_rows

D, BOOKS = 64, load_books()


def metric_of(spread: float, seed: int = 0) -> np.ndarray:
    """A metric with eigenvalues exp(spread * N(0, 1)), in a random basis."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
    return ((basis * np.exp(spread * rng.standard_normal(D))) @ basis.T).astype(np.float32)


def rows(n: int = 200, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, D)).astype(np.float32)


def error(
    y: np.ndarray, metric: np.ndarray, bits: float, passes: int, shaped_by: np.ndarray | None = None
) -> np.ndarray:
    """(n,) float64: error^T M error of each row, codes found under ``shaped_by`` (the metric by default)."""
    widths = widths_for(bits, D)
    codes, scales = shape_rows(y, metric if shaped_by is None else shaped_by, widths, BOOKS, passes)
    e = y - scales.view(np.float16).astype(np.float64)[:, None] * centroid_values(codes, widths, BOOKS)
    return np.einsum("ni,ij,nj->n", e, metric, e)


@pytest.mark.parametrize("bits", [2, 2.5, 3, 3.5, 4])
def test_each_sweep_lowers_the_error_under_the_metric(bits: float) -> None:
    """Of every row, up to the rounding of the scale to float16; and the identity changes next to nothing."""
    y, metric = rows(), metric_of(1.0)
    means = [error(y, metric, bits, passes) for passes in range(4)]
    for before, after in zip(means, means[1:]):
        assert (after <= before * 1.01 + 1e-6).all()
    assert means[3].mean() < 0.75 * means[0].mean()
    plain = np.eye(D, dtype=np.float32)
    assert 0.8 < error(y, plain, bits, 3).mean() / error(y, plain, bits, 0).mean() <= 1


def test_fine_codes_come_near_the_geometric_mean() -> None:
    """Nearest rounding costs the metric's mean eigenvalue, shaping about the geometric mean."""
    y, metric = rows(), metric_of(1.0)
    eigenvalues = np.linalg.eigvalsh(metric.astype(np.float64))
    gain = error(y, metric, 4, 4).mean() / error(y, metric, 4, 4, np.eye(D, dtype=np.float32)).mean()
    bound = np.exp(np.log(eigenvalues).mean()) / eigenvalues.mean()
    assert 0.9 * bound < gain < 1.2 * bound


def test_another_metric_is_no_help() -> None:
    """The fault of taking another head's metric shows as a larger error than no metric at all."""
    y, metric = rows(), metric_of(1.0)
    own, other = error(y, metric, 3, 3).mean(), error(y, metric, 3, 3, metric_of(1.0, 7)).mean()
    assert own < error(y, metric, 3, 0).mean() < other


@pytest.mark.parametrize("bits, gain", [(2, 0.995), (3, 0.95), (4, 0.85)])
def test_no_sweep_is_the_best_of_several_scales(bits: float, gain: float) -> None:
    """Under the identity no row is worse than nearest rounding from its own norm; fine codes gain most."""
    rotation, widths = StructuredRotation(D, 1), widths_for(bits, D)
    x = rows(300)
    y = rotation.forward(x)
    codes, scales = encode_rows(x, rotation.signs, rotation.hadamard, widths, BOOKS, NormMode.min_mse)
    plain = y - scales.view(np.float16).astype(np.float64)[:, None] * centroid_values(codes, widths, BOOKS)
    before, after = (plain**2).sum(axis=1), error(y, np.eye(D, dtype=np.float32), bits, 0)
    assert (after <= before * 1.001).all() and after.mean() < gain * before.mean()


def test_zero_tiny_and_huge_rows() -> None:
    """Zeros get scale 0, what float16 cannot hold the largest number that it can; nothing is NaN."""
    y = np.stack([np.zeros(D), np.full(D, 1e-30), np.full(D, 1e30), 6e4 * rows(1)[0]]).astype(np.float32)
    scales = shape_rows(y, metric_of(0.5), widths_for(3, D), BOOKS, 3)[1].view(np.float16)
    assert np.isfinite(scales).all() and scales[0] == 0 and scales[1] == 0
    assert scales[2] == np.float16(65504)
