"""Books on a grid: what they cost, and that one bit and RaBitQ's points lose nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import CodecError
from tq_core.math.grids import Grid, rabitq_grid, scalar_grid
from tq_core.math.lloyd_max import _cells, lloyd_max
from tq_core.math.rabitq import grid_points


def error(centroids: np.ndarray, dim: int | None) -> float:
    """Mean squared error of a symmetric book under nearest-centroid coding, for unit variance."""
    probability, mean = _cells(centroids.astype(np.float64), dim)
    return float(1 + probability @ centroids**2 - 2 * (probability * mean) @ centroids)


@pytest.mark.parametrize("kind, dim", [("sphere", 16), ("sphere", 128), ("gauss", 128)])
@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_error_of_the_grid(kind: str, dim: int, bits: int) -> None:
    of = dim if kind == "sphere" else None
    grid, book = scalar_grid(kind, bits, dim), lloyd_max(1 << bits, of)
    assert len(grid.levels) == 1 << bits and list(grid.levels) == sorted(grid.levels)
    np.testing.assert_array_equal(grid.centroids, -grid.centroids[::-1])
    assert 0.9999 < error(grid.centroids.astype(np.float64), of) / book.distortion < 1.003
    moved = Grid(grid.levels, np.float32(1.1) * grid.scale)
    assert error(moved.centroids.astype(np.float64), of) / book.distortion > 1.004


def test_one_bit_is_the_book() -> None:
    assert scalar_grid("gauss", 1, 64).centroids[1] == np.float32(np.sqrt(2 / np.pi))


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_rabitqs_points(bits: int) -> None:
    codes = np.arange(1 << bits).astype(np.uint8)
    np.testing.assert_array_equal(rabitq_grid(bits).centroids, grid_points(codes, bits))


def test_another_book_is_refused() -> None:
    with pytest.raises(CodecError, match="^book: expected one of"):
        scalar_grid("beta", 2, 64)
