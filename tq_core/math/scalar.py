"""Scalar books in float32 and the scale that is fitted to a coded vector.

The books are exact Lloyd-Max tables (math/lloyd_max.py), for codecs that no integer kernel reads. Centroids are rounded
to float32 first and boundaries are midpoints of those, so that both are the same on every platform.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tq_core.errors import CodecError, check
from tq_core.math.lloyd_max import lloyd_max
from tq_core.math.quantize import NormMode

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
BOOKS = ("sphere", "gauss")


@lru_cache(maxsize=128)
def scalar_book(kind: str, bits: int, dim: int) -> tuple[F32, F32]:
    """Centroids (2^bits,) and boundaries (2^bits - 1,) for coordinates sqrt(dim) * y of a unit vector y, read-only.

    kind "sphere" is the exact marginal in ``dim`` dimensions, "gauss" its limit N(0, 1). Raises CodecError for another.
    """
    check(kind in BOOKS, "book", f"one of {BOOKS}", repr(kind), CodecError)
    centroids = lloyd_max(1 << bits, dim if kind == "sphere" else None).centroids.astype(np.float32)
    boundaries = (centroids[1:] + centroids[:-1]) * np.float32(0.5)
    for array in (centroids, boundaries):
        array.setflags(write=False)
    return centroids, boundaries


def nearest(t: npt.NDArray, boundaries: npt.NDArray) -> npt.NDArray[np.uint8]:
    """Number of boundaries below each coordinate: a tie goes to the lower cell."""
    return np.searchsorted(boundaries, t, side="left").astype(np.uint8)


def unit_rows(x: F32) -> tuple[F32, F64]:
    """x / ||x|| and ||x|| (..., 1) along the last axis, in float64 before rounding; zeros for a zero vector."""
    wide = np.asarray(x, np.float64)
    rho = np.sqrt((wide * wide).sum(axis=-1, keepdims=True))
    unit = np.divide(wide, rho, out=np.zeros_like(wide), where=rho > 0)
    return unit.astype(np.float32), rho


def fitted_scale(rule: str, t: npt.NDArray, c: npt.NDArray) -> F64:
    """(..., 1) factor f, so that f * ||x|| * c is the reconstruction in the rotated basis; t = sqrt(d) T x / ||x||.

    The rules of math/quantize.py. "unbiased" gives 0 where the codes point away from the vector.
    """
    t, c = np.asarray(t, np.float64), np.asarray(c, np.float64)
    root = np.sqrt(t.shape[-1])
    tc, cc = (t * c).sum(axis=-1, keepdims=True), (c * c).sum(axis=-1, keepdims=True)
    mode = NormMode[rule]
    if mode == NormMode.paper:
        return np.full_like(tc, 1 / root)
    if mode == NormMode.unbiased:
        return np.divide(root, tc, out=np.zeros_like(tc), where=tc > 0)
    if mode == NormMode.min_mse:
        return tc / (root * cc)
    out: F64 = 1 / np.sqrt(cc)
    return out
