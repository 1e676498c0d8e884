"""The 8-bit-grid books: frozen, nearly as good as Lloyd-Max, and the split of half rates over channel groups."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest

from tq_core.errors import TqError
from tq_core.math import books as module
from tq_core.math.books import BOOK_BITS, RATES, load_books, widths_for
from tq_core.math.lloyd_max import lloyd_max


def test_frozen_equals_recomputed() -> None:
    stored = resources.files("tq_core.math").joinpath("books_v1.json").read_text()
    assert module._document() == stored


@pytest.mark.parametrize("bits", BOOK_BITS)
def test_costs_less_than_a_thousandth_over_lloyd_max(bits: int) -> None:
    excess = load_books().distortion(bits) / lloyd_max(1 << bits).distortion - 1
    assert 0 < excess < 1e-3


@pytest.mark.parametrize("bits", BOOK_BITS)
def test_distortion_against_quadrature(bits: int) -> None:
    t = np.linspace(-9, 9, 180_001)
    c = load_books().centroids(bits).astype(np.float64)
    density = np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)
    error = np.abs(t[:, None] - c).min(axis=1) ** 2
    assert load_books().distortion(bits) == pytest.approx(
        float((density * error).sum() * (t[1] - t[0])), rel=1e-5
    )


@pytest.mark.parametrize("row, bits", list(enumerate(BOOK_BITS)))
def test_grid_symmetry_and_midpoints(row: int, bits: int) -> None:
    books, n = load_books(), 1 << bits
    levels = books.levels[row].astype(int)
    assert (levels[:n] + levels[:n][::-1] == 255).all()
    assert (np.diff(levels[:n]) > 0).all()
    assert not levels[n:].any()
    c = books.centroids(bits)
    np.testing.assert_array_equal(c, -c[::-1])
    np.testing.assert_array_equal(books.boundaries[row, : n - 1], (c[1:] + c[:-1]) * np.float32(0.5))
    assert np.isposinf(books.boundaries[row, n - 1 :]).all()


def test_tables_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        load_books().levels[0, 0] = 1


@pytest.mark.parametrize("head_dim", [16, 48, 64, 80, 112, 160, 256])
@pytest.mark.parametrize("rate", RATES)
def test_widths(rate: float, head_dim: int) -> None:
    widths = widths_for(rate, head_dim)
    assert widths.dtype == np.uint8
    assert len(widths) == head_dim // 16
    assert (np.diff(widths.astype(int)) <= 0).all()  # wider groups first
    assert set(widths.tolist()) <= {int(np.floor(rate)), int(np.ceil(rate))}
    excess = float(widths.mean()) - rate
    assert 0 <= excess < 8.001 / head_dim  # half a group too wide when their number is odd
    assert excess == 0 or len(widths) % 2 == 1


@pytest.mark.parametrize("rate", [1, 1.5, 3.25, 5, 0, -3, float("nan"), "3", None, [3.0]])
def test_unknown_rates(rate: object) -> None:
    with pytest.raises(TqError, match="^bits: expected one of"):
        widths_for(rate, 64)  # type: ignore[arg-type]
