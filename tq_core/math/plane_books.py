"""Books of points in the plane: two coordinates take the nearest of 2^B points, where pair codes take two scalar levels.

For N(0, 1) coordinates 32 points (2.5 bits each) err by 0.0572 where 5 x 6 levels err by 0.0690, 128 points (3.5 bits)
by 0.0153 where 11 x 11 err by 0.0192. Weighted Lloyd (LBG) on a fine grid finds a local optimum; the best of several
starts is frozen in plane_books_v1.json. ``python -m tq_core.math.plane_books`` makes the file anew, in some minutes.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from tq_core.errors import CodecError, check

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
PLANE_BITS = {2.0: 4, 2.5: 5, 3.0: 6, 3.5: 7, 4.0: 8}  # bits per coordinate: bits per pair
BOOK_FILE = "plane_books_v1.json"
GRID, REACH = 301, 5.5  # points per axis and where they end, in standard deviations


@lru_cache(maxsize=1)
def _grid() -> tuple[F64, F64]:
    """Points (GRID^2, 2) and their shares of N(0, I)."""
    axis = np.linspace(-REACH, REACH, GRID)
    density = np.exp(-(axis**2) / 2)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.outer(density, density).reshape(-1)
    return points, weights / weights.sum()


def cells(book: F64) -> tuple[F64, F64, float]:
    """Mean point (n, 2) and share (n,) of each point's cell under N(0, I), and the mean squared error per coordinate."""
    points, weights = _grid()
    distance, nearest = cKDTree(book).query(points)
    share: F64 = np.bincount(nearest, weights, len(book)).astype(np.float64)
    sums = np.stack([np.bincount(nearest, weights * points[:, i], len(book)) for i in (0, 1)], axis=1)
    means = np.where(share[:, None] > 0, sums / np.maximum(share, 1e-300)[:, None], book)
    return means, share, float((weights * distance**2).sum() / 2)


def fit_plane_book(bits: int, seed: int, rounds: int = 400) -> tuple[F64, float]:
    """(2^bits, 2) points and their error per coordinate, after ``rounds`` of Lloyd from points drawn with ``seed``.

    At high rates the best density of points is the square root of that of the pairs: a deviation of sqrt(2).
    """
    book = np.sqrt(2) * np.random.default_rng(seed).standard_normal((1 << bits, 2))
    error = np.inf
    for _ in range(rounds):
        moved, share, now = cells(book)
        if share.min() == 0:  # a point that nobody takes goes where the error is
            moved[share == 0] = moved[int(share.argmax())] + 1e-3
        if error - now < 1e-6 * now:
            break
        book, error = moved, now
    return book, cells(book)[2]


@lru_cache(maxsize=8)
def plane_book(bits: int) -> F32:
    """(2^bits, 2) float32 points in units of a coordinate's standard deviation, read-only. Raises CodecError for other bits."""
    check(
        bits in PLANE_BITS.values(), "bits", f"one of {tuple(PLANE_BITS.values())} per pair", bits, CodecError
    )
    held = json.loads(resources.files("tq_core.math").joinpath(BOOK_FILE).read_text(encoding="ascii"))
    book = np.array(held["books"][str(bits)], np.float32)
    book.setflags(write=False)
    return book


def nearest_points(t: npt.NDArray, bits: int) -> npt.NDArray[np.uint8]:
    """Index of the nearest point for pairs t (..., 2)."""
    return _tree(bits).query(t)[1].astype(np.uint8)


@lru_cache(maxsize=8)
def _tree(bits: int) -> cKDTree:
    return cKDTree(plane_book(bits).astype(np.float64))


def _write(path: Path, starts: int = 4) -> None:
    books, errors = {}, {}
    for bits in PLANE_BITS.values():
        book, error = min((fit_plane_book(bits, seed) for seed in range(starts)), key=lambda made: made[1])
        rounded = book[np.lexsort((book[:, 1], book[:, 0]))].astype(np.float32)
        books[str(bits)] = [[float(v) for v in point] for point in rounded]
        errors[str(bits)] = round(error, 9)
        print(f"{bits} bits per pair: {error:.6f} per coordinate", flush=True)
    path.write_text(
        json.dumps({"version": "plane-v1", "errors": errors, "books": books}) + "\n", encoding="ascii"
    )


if __name__ == "__main__":
    _write(Path(__file__).with_name(BOOK_FILE))
