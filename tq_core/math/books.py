"""Codebooks on an 8-bit grid, the form that the integer kernels score against.

A centroid is ``scale * (2u - 255)`` with u a byte: odd integers, symmetric about zero. The grid
position of each Lloyd-Max centroid of N(0,1) and the scale are chosen together for the least mean
squared error. The table is frozen in books_v1.json, since a stored cache depends on its bits;
``python -m tq_core.math.books`` recomputes and compares it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from tq_core.errors import CodecError, check
from tq_core.math.lloyd_max import lloyd_max
from tq_core.shapes import check_head_dim

BOOK_VERSION = "gauss-grid8-v1"
BOOK_BITS = (2, 3, 4)
RATES = (2.0, 2.5, 3.0, 3.5, 4.0)
_ROW = 16


@dataclass(frozen=True)
class Books:
    """The three books as the kernels take them, one row per width 2, 3, 4.

    levels (3, 16) uint8: u of each centroid, ascending, zero-padded; scale (3,) float32;
    boundaries (3, 16) float32: midpoints of the float32 centroids, +inf-padded.
    """

    levels: npt.NDArray[np.uint8]
    scale: npt.NDArray[np.float32]
    boundaries: npt.NDArray[np.float32]

    def centroids(self, bits: int) -> npt.NDArray[np.float32]:
        """(2^bits,) float32 centroids in units of the coordinate's standard deviation."""
        row = BOOK_BITS.index(bits)
        steps = 2 * self.levels[row, : 1 << bits].astype(np.int32) - 255
        return steps.astype(np.float32) * self.scale[row]

    def distortion(self, bits: int) -> float:
        """E (t - centroid)^2 for t ~ N(0,1), from the cells that these boundaries cut."""
        from scipy import special

        c = self.centroids(bits).astype(np.float64)
        edges = np.concatenate([[-np.inf], self.boundaries[BOOK_BITS.index(bits), : len(c) - 1], [np.inf]])
        probability = np.diff(special.ndtr(edges))
        partial = -np.diff(np.exp(-0.5 * edges**2)) / np.sqrt(2 * np.pi)
        return float(1.0 + probability @ c**2 - 2 * partial @ c)


def fit_grid(bits: int) -> tuple[list[int], np.float32]:
    """Bytes u (ascending) and scale of the grid book closest to the Lloyd-Max book, weighted by probability."""
    book = lloyd_max(1 << bits)
    best: tuple[float, list[int], float] = (np.inf, [], 0.0)
    for largest in range(127, 256, 2):
        step = book.centroids[-1] / largest
        for _ in range(20):
            grid = 2 * np.floor(book.centroids / (2 * step)) + 1
            refit = float((book.probabilities * book.centroids) @ grid / (book.probabilities @ grid**2))
            if np.abs(grid).max() > 255 or refit == step:
                break
            step = refit
        error = float(book.probabilities @ (book.centroids - step * grid) ** 2)
        if np.abs(grid).max() <= 255 and error < best[0]:
            best = (error, [int(g + 255) // 2 for g in grid], step)
    return best[1], np.float32(best[2])


@lru_cache(maxsize=1)
def load_books() -> Books:
    """The frozen books, read-only arrays."""
    stored = json.loads(resources.files("tq_core.math").joinpath("books_v1.json").read_text())
    levels = np.zeros((len(BOOK_BITS), _ROW), np.uint8)
    scale = np.zeros(len(BOOK_BITS), np.float32)
    for row, bits in enumerate(BOOK_BITS):
        levels[row, : 1 << bits] = stored[str(bits)]["levels"]
        scale[row] = np.float32(float.fromhex(stored[str(bits)]["scale"]))
    boundaries = np.full((len(BOOK_BITS), _ROW), np.inf, np.float32)
    books = Books(levels, scale, boundaries)
    for row, bits in enumerate(BOOK_BITS):
        c = books.centroids(bits)
        boundaries[row, : len(c) - 1] = (c[1:] + c[:-1]) * np.float32(0.5)
    for array in (levels, scale, boundaries):
        array.setflags(write=False)
    return books


def widths_for(rate: float, head_dim: int) -> npt.NDArray[np.uint8]:
    """Bits of each 16-channel group for a nominal rate: (head_dim / 16,) uint8.

    Half rates split the groups, wider half first: 3.5 is 4 bits then 3 bits. After the rotation
    channels are exchangeable, so which ones get the extra bit does not matter. With an odd number of
    groups the wider half is one group larger (head_dim 80 at 3.5 stores 3.6).
    Raises CodecError for a rate that is not one of RATES.
    """
    check(rate in RATES, "bits", f"one of {RATES}", rate, CodecError)
    check_head_dim(head_dim)
    groups = head_dim // 16
    wide = groups if rate == int(rate) else (groups + 1) // 2
    high, low = int(np.ceil(rate)), int(np.floor(rate))
    return np.array([high] * wide + [low] * (groups - wide), np.uint8)


def _document() -> str:
    out = {}
    for bits in BOOK_BITS:
        levels, scale = fit_grid(bits)
        out[str(bits)] = {"levels": levels, "scale": float(scale).hex()}
    return json.dumps(out, indent=1) + "\n"


if __name__ == "__main__":
    same = _document() == resources.files("tq_core.math").joinpath("books_v1.json").read_text()
    print(_document(), end="")
    raise SystemExit(0 if same else 1)
