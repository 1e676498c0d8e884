"""The frozen books of the plane are optimal in the sense of Lloyd, and better than any pair of scalar levels."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest

from tq_core.errors import CodecError
from tq_core.math.plane_books import BOOK_FILE, PLANE_BITS, cells, fit_plane_book, nearest_points, plane_book

# Errors per coordinate that an independent search reported, +-1 %.
WANT = {4: 0.1074, 5: 0.0572, 6: 0.0298, 7: 0.0153, 8: 0.00788}
HELD = json.loads(resources.files("tq_core.math").joinpath(BOOK_FILE).read_text())


@pytest.mark.parametrize("bits", WANT)
def test_errors_on_fresh_gaussian_pairs(bits: int) -> None:
    t = np.random.default_rng(bits).standard_normal((200_000, 2))
    error = ((t - plane_book(bits)[nearest_points(t, bits)]) ** 2).mean()
    assert error == pytest.approx(WANT[bits], rel=0.015)
    assert error == pytest.approx(HELD["errors"][str(bits)], rel=0.01)


@pytest.mark.parametrize("bits", WANT)
def test_every_point_is_the_mean_of_its_cell(bits: int) -> None:
    book = plane_book(bits).astype(np.float64)
    means, share, _ = cells(book)
    inner = np.linalg.norm(book, axis=1) < 2.5  # outer cells hold little, and the grid is coarse there
    assert share.min() > 0 and np.abs(means - book)[inner].max() < 0.03
    assert len(np.unique(book, axis=0)) == 1 << bits


def test_a_worse_book_would_be_seen() -> None:
    """Planted: one point moved by half a deviation costs what these tests measure."""
    book = plane_book(5).astype(np.float64).copy()
    fine = cells(book)[2]
    book[int(np.linalg.norm(book, axis=1).argmin())] += 0.5
    assert cells(book)[2] > 1.015 * fine


def test_fit_is_deterministic_and_falls() -> None:
    short, long = (fit_plane_book(4, 3, rounds) for rounds in (5, 40))
    assert long[1] < short[1] and np.array_equal(fit_plane_book(4, 3, 5)[0], short[0])


def test_books_are_read_only_and_others_are_refused() -> None:
    with pytest.raises(ValueError, match="read-only"):
        plane_book(5)[0] = 0
    for bits in (3, 9, "5"):
        with pytest.raises(CodecError, match="^bits: expected one of"):
            plane_book(bits)  # type: ignore[arg-type]
    assert {PLANE_BITS[r] for r in (2.5, 3.5)} == {5, 7}
