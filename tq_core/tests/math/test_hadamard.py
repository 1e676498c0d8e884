"""Hadamard matrices of every head size, in integers, and the golden vectors of their constructions."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import TqError
from tq_core.math.hadamard import fwht, paley, paley_order, transform

GOLDEN = {
    12: [78, 12, 2, 14, 4, -6, -16, -4, 8, 20, 10, 22],
    20: [210, 20, 2, 22, 42, 24, 6, -12, -30, -10, -28, -8, -26, -6, 14, 34, 54, 36, 18, 38],
    28: [402, -16, 2, -8, -50, -12, 2, -16, -50, -20, -102, -24, -50, -28, 2, -32]
    + [54, -36, 106, -40, 54, -44, 2, -48, 54, -52, 2, -56],
}


def dense(head_dim: int) -> np.ndarray:
    """The whole (d, d) matrix, spelled out as a Kronecker product of the Paley factor and Sylvester's matrix."""
    m = paley_order(head_dim)
    sylvester = np.ones((1, 1), np.int64)
    while sylvester.shape[0] < head_dim // m:
        sylvester = np.block([[sylvester, sylvester], [sylvester, -sylvester]])
    return np.kron(paley(m), sylvester)


@pytest.mark.parametrize("head_dim", [*range(16, 257, 16), 576])
def test_orthogonal_in_integers(head_dim: int) -> None:
    h = dense(head_dim)
    assert set(np.unique(h)) == {-1, 1}
    np.testing.assert_array_equal(h @ h.T, head_dim * np.eye(head_dim, dtype=np.int64))


@pytest.mark.parametrize("head_dim", [*range(16, 257, 16), 576])
def test_transform_is_the_dense_matrix(head_dim: int) -> None:
    """On small integers float32 is exact, so the fast form must equal the dense product exactly."""
    x = np.random.default_rng(head_dim).integers(-9, 10, (3, head_dim))
    h, factor = dense(head_dim), paley(paley_order(head_dim))
    np.testing.assert_array_equal(transform(x.astype(np.float32), factor), x @ h.T)
    np.testing.assert_array_equal(transform(x.astype(np.float32), factor, inverse=True), x @ h)
    np.testing.assert_array_equal(transform(transform(x, factor), factor, inverse=True), head_dim * x)


@pytest.mark.parametrize("order", GOLDEN)
def test_golden_paley(order: int) -> None:
    np.testing.assert_array_equal(paley(order) @ np.arange(1, order + 1), GOLDEN[order])


def test_golden_fwht() -> None:
    np.testing.assert_array_equal(fwht(np.arange(1, 9)), [36, -4, -8, 0, -16, 0, 0, 0])


def test_golden_80() -> None:
    y = transform(np.arange(80), paley(20))
    np.testing.assert_array_equal(y[:9], [3160, -40, -80, 0, 320, 0, 0, 0, 32])
    assert int(y @ y) == 13398400 == 80 * sum(i * i for i in range(80))


@pytest.mark.parametrize(
    "head_dim, order", [(16, 1), (64, 1), (256, 1), (80, 20), (160, 20), (96, 12), (112, 28), (576, 36)]
)
def test_order_of_the_paley_factor(head_dim: int, order: int) -> None:
    assert paley_order(head_dim) == order


@pytest.mark.parametrize("head_dim", [0, 8, 24, 100, 272, 560, 592, -16])
def test_order_refuses_other_sizes(head_dim: int) -> None:
    with pytest.raises(TqError, match="^head_dim: expected a multiple of 16"):
        paley_order(head_dim)


@pytest.mark.parametrize("order", [0, 3, 16, 36 + 4, 92])
def test_paley_refuses_orders_that_it_cannot_reach(order: int) -> None:
    """92 is a Hadamard order, but neither construction over a prime gives it."""
    with pytest.raises(TqError, match="^m: expected"):
        paley(order)


def test_shared_matrices_are_read_only() -> None:
    for order in (1, 20, 28):
        with pytest.raises(ValueError, match="read-only"):
            paley(order)[0, 0] = 5
