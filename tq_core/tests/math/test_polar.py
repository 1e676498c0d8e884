"""PolarQuant's books and recursion against quadrature, and where its error comes from."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.math.polar import CODE_BITS, angle_book, from_polar, to_polar

BOOKS = {
    2: [0.3097561170, 0.6339802400, 0.9368160868, 1.2610402098],
    3: [0.4262496931, 0.6743849978, 0.8964113290, 1.1445466337],
    4: [0.5242140911, 0.7059094057, 0.8648869211, 1.0465822357],
}


@pytest.mark.parametrize("level", BOOKS)
def test_books(level: int) -> None:
    np.testing.assert_allclose(angle_book(level), BOOKS[level], atol=1e-9)


@pytest.mark.parametrize("level", BOOKS)
def test_every_centroid_is_the_mean_of_its_cell(level: int) -> None:
    book, psi = angle_book(level), np.linspace(0, np.pi / 2, 200_001)
    density = np.sin(2 * psi) ** (2 ** (level - 1) - 1)
    cell = np.searchsorted((book[1:] + book[:-1]) / 2, psi)
    np.testing.assert_allclose(np.bincount(cell, density * psi) / np.bincount(cell, density), book, atol=1e-4)


def test_level_one_is_uniform() -> None:
    np.testing.assert_allclose(angle_book(1), (np.arange(16) + 0.5) * np.pi / 8)


def test_codes_and_exact_reconstruction_at_the_centroids() -> None:
    """Plateaus: a block made of centroids comes back, and there are 46 code bits."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 1 << b, (7, n)).astype(np.uint8) for b, n in ((4, 8), (2, 4), (2, 2), (2, 1))]
    radii = rng.uniform(0.5, 2, (7, 1))
    y = from_polar(codes, radii)
    again, length = to_polar(y)
    for a, b in zip(codes, again, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(length, radii, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1, keepdims=True), radii, rtol=1e-12)
    assert CODE_BITS == sum(c.shape[1] * b for c, b in zip(codes, (4, 2, 2, 2), strict=True)) == 46


@pytest.mark.parametrize("level, want", [(1, 0.01280), (2, 0.00992), (3, 0.00616), (4, 0.00339)])
def test_level_budget(level: int, want: float) -> None:
    """Error of one level's rounding with the other angles exact: two bits at level 2 are the second largest part."""
    y = np.random.default_rng(1).standard_normal((20_000, 16))
    radii = [y]
    angles = []
    for _ in range(4):
        a, b = radii[-1][:, 0::2], radii[-1][:, 1::2]
        angles.append(np.arctan2(b, a))
        radii.append(np.hypot(a, b))
    codes, _ = to_polar(y)
    angles[level - 1] = angle_book(level)[codes[level - 1]]
    out = radii[4]
    for angle in reversed(angles):
        out = np.stack([out * np.cos(angle), out * np.sin(angle)], axis=-1).reshape(len(y), -1)
    assert ((out - y) ** 2).sum() / (y**2).sum() == pytest.approx(want, rel=0.02)


def test_axes_and_zero() -> None:
    """Angles at the edges of cells and a zero block give codes, radius 0 and no NaN."""
    y = np.zeros((3, 16))
    y[1, 0], y[2, 1] = -1, -1
    codes, radii = to_polar(y)
    assert np.isfinite(from_polar(codes, radii)).all() and radii.ravel().tolist() == [0, 1, 1]
    assert not from_polar(codes, radii)[0].any()
