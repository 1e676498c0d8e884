"""Sign sketches: constants, unbiasedness, and the variance that the formulas promise."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import CodecError
from tq_core.math.sketch import mean_abs_coordinate, sign_bits, sign_values, sketch, sketch_constant

D = 128


def unit(n: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def estimates(kind: str, m: int, q: np.ndarray, k: np.ndarray, seed: int = 1) -> np.ndarray:
    s = sketch(kind, m, D, seed)
    z = sign_values(sign_bits(s.forward(k.astype(np.float32))))
    return sketch_constant(kind, m, D) * (s.forward(q.astype(np.float32)).astype(np.float64) * z).sum(axis=1)


def test_mean_abs_coordinate() -> None:
    """Closed form at d = 2 and 3, Monte Carlo at 64, and the limit sqrt(2 / (pi d)) from above."""
    assert mean_abs_coordinate(2) == pytest.approx(2 / np.pi)
    assert mean_abs_coordinate(3) == pytest.approx(0.5)
    assert np.sqrt(64) * mean_abs_coordinate(64) == pytest.approx(0.80101, abs=1e-5)
    assert np.sqrt(128) * mean_abs_coordinate(128) == pytest.approx(0.79944, abs=1e-5)
    assert np.abs(unit(4000, 0)).mean() == pytest.approx(mean_abs_coordinate(D), rel=2e-3)


@pytest.mark.parametrize("d, excess", [(64, 0.0039), (128, 0.00195)])
def test_the_gaussian_constant_is_too_large_for_orthogonal_rows(d: int, excess: float) -> None:
    ratio = sketch_constant("gaussian", d, d) / sketch_constant("orthogonal", d, d)
    assert ratio - 1 == pytest.approx(excess, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "orthogonal", "structured"])
@pytest.mark.parametrize("cosine", [0.0, 0.5, 0.95])
def test_unbiased_with_the_promised_variance(kind: str, cosine: float) -> None:
    """Correlated pairs too, where a biased estimator shows: d Var = pi/2 - cos^2, or (pi/2 - 1)(1 - cos^2) + a cos^2.

    For orthogonal rows and q = k the estimate is ||u||_1 over its mean, whence a = d Var(||u||_1) / E(||u||_1)^2 = .072.
    """
    n = 20_000
    k = unit(n, 1)
    q = unit(n, 2)
    q -= (q * k).sum(axis=1, keepdims=True) * k
    q = cosine * k + np.sqrt(1 - cosine**2) * q / np.linalg.norm(q, axis=1, keepdims=True)
    got = estimates(kind, D, q, k)
    a = D * ((1 + 2 * (D - 1) / np.pi) / (D * mean_abs_coordinate(D)) ** 2 - 1)
    want = (np.pi / 2 - 1) * (1 - cosine**2) + a * cosine**2
    if kind == "gaussian":
        want = np.pi / 2 - cosine**2
    # one sketch is drawn: row lengths of a Gaussian one leave up to 1 / (sqrt(2) d) of the slope
    assert got.mean() == pytest.approx(cosine, abs=0.004 + 3 * got.std() / np.sqrt(n))
    assert D * got.var() == pytest.approx(want, rel=0.04)


@pytest.mark.parametrize("m", [64, 128, 256, 512])
def test_variance_falls_with_the_rows(m: int) -> None:
    k, q = unit(6000, 3), unit(6000, 4)
    got = estimates("gaussian", m, q, k) - (q * k).sum(axis=1)
    assert m * got.var() == pytest.approx(np.pi / 2, rel=0.06)


def test_signs_on_both_sides_estimate_the_angle() -> None:
    """Two-sided signs are biased for the inner product: at cosine 0.5 they give 1 - 2 angle / pi = 1/3."""
    k = unit(4000, 5)
    q = unit(4000, 6)
    q -= (q * k).sum(axis=1, keepdims=True) * k
    q = 0.5 * k + np.sqrt(0.75) * q / np.linalg.norm(q, axis=1, keepdims=True)
    s = sketch("gaussian", D, D, 1)
    both = [sign_values(sign_bits(s.forward(x.astype(np.float32)))) for x in (q, k)]
    assert (both[0] * both[1]).mean() == pytest.approx(1 / 3, abs=0.01)


def test_sign_of_zero_is_plus() -> None:
    assert sign_values(sign_bits(np.float32([0.0, -0.0, -1.0, 2.0]))).tolist() == [1, 1, -1, 1]


def test_rows_and_kinds() -> None:
    for m in (32, 128, 200):
        dense = sketch("orthogonal", m, 64, 1).matrix  # type: ignore[attr-defined]
        assert dense.shape == (m, 64)
        np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 8, rtol=1e-12)
        block = dense[: min(m, 64)]
        np.testing.assert_allclose(block @ block.T, 64 * np.eye(len(block)), atol=1e-10)
    with pytest.raises(CodecError, match="^sketch: expected one of"):
        sketch("binary", 64, 64, 1)
    with pytest.raises(CodecError, match="^rows: expected 64"):
        sketch("structured", 128, 64, 1)
