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

from tq_core.errors import CodecError, ValueRangeError, check
from tq_core.math.lloyd_max import Codebook, lloyd_max
from tq_core.math.pairs import PAIR_BITS, pair_widths
from tq_core.shapes import check_head_dim

BOOK_VERSION = "gauss-grid8-v1"
BOOK_BITS = (2, 3, 4)
# Levels of each row of the book table: those of BOOK_BITS, then those of pair codes (math/pairs.py).
BOOK_LEVELS = (4, 8, 16, 5, 6, 11)
_PAIR_ROWS = {5: (3, 4), 7: (5, 5)}
CODES = ("split", "pair")
RATES = (2.0, 2.5, 3.0, 3.5, 4.0)
_ROW = 16


@dataclass(frozen=True)
class Books:
    """The books as the kernels take them, one row per entry of BOOK_LEVELS.

    levels (6, 16) uint8: u of each centroid, ascending, zero-padded; scale (6,) float32;
    boundaries (6, 16) float32: midpoints of the float32 centroids, +inf-padded.
    """

    levels: npt.NDArray[np.uint8]
    scale: npt.NDArray[np.float32]
    boundaries: npt.NDArray[np.float32]

    def centroids(self, bits: int) -> npt.NDArray[np.float32]:
        """(2^bits,) float32 centroids in units of the coordinate's standard deviation."""
        return self.row_centroids(BOOK_BITS.index(bits))

    def row_centroids(self, row: int) -> npt.NDArray[np.float32]:
        """The same for any row of the table."""
        steps = 2 * self.levels[row, : BOOK_LEVELS[row]].astype(np.int32) - 255
        return steps.astype(np.float32) * self.scale[row]

    def distortion(self, bits: int) -> float:
        """Mean squared error of the book of 2^bits levels on N(0,1)."""
        return self.row_distortion(BOOK_BITS.index(bits))

    def row_distortion(self, row: int) -> float:
        """E (t - centroid)^2 for t ~ N(0,1), from the cells that these boundaries cut."""
        from scipy import special

        c = self.row_centroids(row).astype(np.float64)
        edges = np.concatenate([[-np.inf], self.boundaries[row, : len(c) - 1], [np.inf]])
        probability = np.diff(special.ndtr(edges))
        partial = -np.diff(np.exp(-0.5 * edges**2)) / np.sqrt(2 * np.pi)
        return float(1.0 + probability @ c**2 - 2 * partial @ c)


def fit_grid(book: Codebook) -> tuple[list[int], np.float32]:
    """Bytes u (ascending) and scale of the grid book closest to a Lloyd-Max book, weighted by probability."""
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


def _names() -> list[tuple[str, int]]:
    """Name in the file and number of levels of every row."""
    names = [str(bits) for bits in BOOK_BITS] + [f"{n} levels" for n in BOOK_LEVELS[len(BOOK_BITS) :]]
    return list(zip(names, BOOK_LEVELS))


@lru_cache(maxsize=1)
def load_books() -> Books:
    """The frozen books, read-only arrays."""
    stored = json.loads(resources.files("tq_core.math").joinpath("books_v1.json").read_text())
    levels = np.zeros((len(BOOK_LEVELS), _ROW), np.uint8)
    scale = np.zeros(len(BOOK_LEVELS), np.float32)
    for row, (name, count) in enumerate(_names()):
        levels[row, :count] = stored[name]["levels"]
        scale[row] = np.float32(float.fromhex(stored[name]["scale"]))
    boundaries = np.full((len(BOOK_LEVELS), _ROW), np.inf, np.float32)
    books = Books(levels, scale, boundaries)
    for row in range(len(BOOK_LEVELS)):
        c = books.row_centroids(row)
        boundaries[row, : len(c) - 1] = (c[1:] + c[:-1]) * np.float32(0.5)
    for array in (levels, scale, boundaries):
        array.setflags(write=False)
    return books


@lru_cache(maxsize=256)
def _rows(widths: bytes) -> tuple[int, ...]:
    """Row of each group; empty when the widths are not such a sequence."""
    rows: list[int] = []
    for group, bits in enumerate(widths):
        before = widths[group - 1] if group else 0
        if before in _PAIR_ROWS and bits == 0:
            rows.append(_PAIR_ROWS[before][1])
        elif before not in _PAIR_ROWS and bits in _PAIR_ROWS and group + 1 < len(widths):
            rows.append(_PAIR_ROWS[bits][0])
        elif before not in _PAIR_ROWS and bits in BOOK_BITS:
            rows.append(BOOK_BITS.index(bits))
        else:
            return ()
    return tuple(rows)


def book_rows(widths: npt.NDArray[np.uint8], name: str = "widths") -> tuple[int, ...]:
    """Row of the book table of each 16-channel group.

    A pair code's bits, 5 or 7, stand at its first group and 0 at its second. Raises ValueRangeError, which names the
    argument ``name``, for other widths.
    """
    rows = _rows(widths.tobytes())
    expected = f"bit widths in {BOOK_BITS}, or {tuple(_PAIR_ROWS)} with 0 behind each"
    check(len(rows) == len(widths), name, expected, widths, ValueRangeError)
    return rows


def widths_for(rate: float, head_dim: int, code: str = "split") -> npt.NDArray[np.uint8]:
    """Bits of each 16-channel group for a nominal rate: (head_dim / 16,) uint8.

    With code "split" half rates split the groups, wider half first: 3.5 is 4 bits then 3 bits. After the rotation
    channels are exchangeable, so which ones get the extra bit does not matter. With an odd number of
    groups the wider half is one group larger (head_dim 80 at 3.5 stores 3.6). With code "pair" half rates are
    pair codes (see pairs.pair_widths).
    Raises CodecError for a rate that is not one of RATES, another code, or a head_dim that pair codes do not have.
    """
    check(rate in RATES, "bits", f"one of {RATES}", rate, CodecError)
    check(code in CODES, "code", f"one of {CODES}", code, CodecError)
    check_head_dim(head_dim)
    if code == "pair" and rate in PAIR_BITS:
        return pair_widths(rate, head_dim)
    groups = head_dim // 16
    wide = groups if rate == int(rate) else (groups + 1) // 2
    high, low = int(np.ceil(rate)), int(np.floor(rate))
    return np.array([high] * wide + [low] * (groups - wide), np.uint8)


def _document() -> str:
    out = {}
    for name, count in _names():
        levels, scale = fit_grid(lloyd_max(count))
        out[name] = {"levels": levels, "scale": float(scale).hex()}
    return json.dumps(out, indent=1) + "\n"


if __name__ == "__main__":
    same = _document() == resources.files("tq_core.math").joinpath("books_v1.json").read_text()
    print(_document(), end="")
    raise SystemExit(0 if same else 1)
