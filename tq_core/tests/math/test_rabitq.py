"""The grid search of RaBitQ against brute force, and its ties."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tq_core.math.rabitq import grid_codes, grid_points


def cosine(u: np.ndarray, g: np.ndarray) -> np.ndarray:
    g = np.asarray(g, np.float64)
    return (u * g).sum(axis=-1) / (np.linalg.norm(u, axis=-1) * np.linalg.norm(g, axis=-1))


@pytest.mark.parametrize("bits, d", [(1, 6), (2, 5), (3, 4)])
def test_best_of_all_grid_points(bits: int, d: int) -> None:
    u = np.random.default_rng(bits).standard_normal((40, d))
    every = np.array(list(itertools.product(range(1 << bits), repeat=d)), np.uint8)
    best = cosine(u[:, None], grid_points(every, bits)[None]).max(axis=1)
    np.testing.assert_allclose(cosine(u, grid_points(grid_codes(u, bits), bits)), best, rtol=1e-12)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_no_other_step_size_does_better(bits: int) -> None:
    """d = 128: the sweep beats rounding t u for every t of a fine grid."""
    u = np.random.default_rng(9).standard_normal((20, 128))
    found = cosine(u, grid_points(grid_codes(u, bits), bits))
    top = (1 << (bits - 1)) - 0.5
    for t in np.linspace(0.2, 6, 400):
        rounded = np.sign(u) * np.clip(np.floor(np.abs(u) * t) + 0.5, 0.5, top)
        assert (cosine(u, rounded) <= found + 1e-12).all()


def test_one_bit_is_the_sign_and_zero_counts_as_positive() -> None:
    u = np.array([[0.3, -0.2, 0.0, -0.0, 5e-324]])
    assert grid_codes(u, 1).tolist() == [[1, 0, 1, 1, 1]]
    assert grid_points(grid_codes(u, 1), 1).tolist() == [[0.5, -0.5, 0.5, 0.5, 0.5]]


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_zero_vector_and_scale(bits: int) -> None:
    assert (grid_codes(np.zeros((1, 16)), bits) == 1 << (bits - 1)).all()
    u = np.random.default_rng(1).standard_normal((5, 48))
    np.testing.assert_array_equal(grid_codes(u, bits), grid_codes(8 * u, bits))
    assert grid_points(np.array([0, (1 << bits) - 1], np.uint8), bits).sum() == 0
