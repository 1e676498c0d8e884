"""Books whose centroids are odd integers times one factor: what the integer kernels read.

A book of the sphere's marginal or of N(0, 1) moves to an 8-bit grid as the frozen ones do (books.fit_grid), where its
mean squared error grows by less than 3 parts in 1000 at four bits and less at fewer; a book of two levels is exact.
RaBitQ's grid code - (2^B - 1)/2 consists of odd integers times 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tq_core.errors import CodecError, check
from tq_core.math.books import fit_grid
from tq_core.math.lloyd_max import lloyd_max
from tq_core.math.scalar import BOOKS


@dataclass(frozen=True)
class Grid:
    """Centroids scale * (2u - 255), ascending; ``levels`` are the bytes u, ``scale`` a float32."""

    levels: tuple[int, ...]
    scale: np.float32

    @property
    def centroids(self) -> npt.NDArray[np.float32]:
        """(n,) float32."""
        steps = 2 * np.array(self.levels, np.int32) - 255
        return steps.astype(np.float32) * self.scale

    @property
    def boundaries(self) -> npt.NDArray[np.float32]:
        """(n - 1,) float32 midpoints."""
        c = self.centroids
        return (c[1:] + c[:-1]) * np.float32(0.5)


SIGNS = Grid((127, 128), np.float32(1))


@lru_cache(maxsize=128)
def scalar_grid(kind: str, bits: int, dim: int) -> Grid:
    """The book of 2^bits levels for coordinates sqrt(dim) * y of a unit vector y.

    kind "sphere" is the exact marginal in ``dim`` dimensions, "gauss" its limit. Raises CodecError for another.
    """
    check(kind in BOOKS, "book", f"one of {BOOKS}", repr(kind), CodecError)
    book = lloyd_max(1 << bits, dim if kind == "sphere" else None)
    if bits == 1:
        return Grid(SIGNS.levels, np.float32(book.centroids[1]))
    levels, scale = fit_grid(book)
    return Grid(tuple(levels), scale)


def rabitq_grid(bits: int) -> Grid:
    """Points code - (2^bits - 1)/2 of RaBitQ's codes."""
    low = 128 - (1 << (bits - 1))
    return Grid(tuple(range(low, low + (1 << bits))), np.float32(0.5))
