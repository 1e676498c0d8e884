"""Lloyd-Max books against an independent computation, and the facts that make a book optimal."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest

from tq_core.errors import ValueRangeError
from tq_core.math.lloyd_max import lloyd_max

REFERENCE = json.loads(resources.files("tq_core.tests").joinpath("data/codebooks.json").read_text())["books"]
CASES = [(name, int(levels)) for name, book in REFERENCE.items() for levels in book]


def _dim(name: str) -> int | None:
    return None if name == "N01" else int(name[1:])


@pytest.mark.parametrize("name, levels", CASES)
def test_matches_the_independent_book(name: str, levels: int) -> None:
    want, book = REFERENCE[name][str(levels)], lloyd_max(levels, _dim(name))
    np.testing.assert_allclose(book.centroids[book.centroids >= 0], want["pos"], rtol=0, atol=1e-9)
    assert book.distortion == pytest.approx(want["D"], abs=1e-9)
    assert book.entropy_bits == pytest.approx(want["H"], abs=1e-6)


def test_closed_forms_of_one_bit() -> None:
    """L = 2 on N(0,1): centroids +-sqrt(2/pi), distortion 1 - 2/pi."""
    book = lloyd_max(2)
    np.testing.assert_allclose(book.centroids, [-np.sqrt(2 / np.pi), np.sqrt(2 / np.pi)], rtol=1e-14)
    assert book.distortion == pytest.approx(1 - 2 / np.pi, rel=1e-13)


@pytest.mark.parametrize("levels", [2, 5, 8, 16])
def test_every_centroid_is_the_mean_of_its_cell(levels: int) -> None:
    """Checked by plain quadrature over the density, without the closed forms of the library."""
    book = lloyd_max(levels)
    t = np.linspace(-9, 9, 360_001)
    density = np.exp(-0.5 * t * t)
    cell = np.searchsorted((book.centroids[1:] + book.centroids[:-1]) / 2, t)
    means = np.bincount(cell, density * t) / np.bincount(cell, density)
    np.testing.assert_allclose(means, book.centroids, atol=5e-5)


def test_distortion_times_4_to_the_b_grows_towards_the_high_rate_constant() -> None:
    """D 4^b is monotone and below sqrt(3) pi / 2 (Panter-Dite)."""
    scaled = [lloyd_max(2**b).distortion * 4**b for b in (1, 2, 3, 4, 5)]
    assert scaled == sorted(scaled)
    assert 2.5 < scaled[-1] < np.sqrt(3) * np.pi / 2


@pytest.mark.parametrize("levels, dim, argument", [(1, None, "levels"), (65, None, "levels"), (4, 3, "dim")])
def test_bad_input_names_the_argument(levels: int, dim: int | None, argument: str) -> None:
    with pytest.raises(ValueRangeError, match=f"^{argument}: expected"):
        lloyd_max(levels, dim)
