"""Lloyd-Max codebooks: the scalar quantizers of least mean squared error for a known density.

Coordinates are standardised, t = sqrt(d) y for a unit vector y, so they have variance 1. Two
densities: N(0, 1), the limit of large head_dim, and the exact marginal of a uniform point on the
sphere in d dimensions, density proportional to (1 - y^2)^((d-3)/2) (2504.19874, Lemma 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from tq_core.errors import ValueRangeError, check

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Codebook:
    """Centroids (ascending) with their probabilities, mean squared error and index entropy in bits."""

    centroids: F64
    probabilities: F64
    distortion: float
    entropy_bits: float


def _cdf_and_partial_mean(t: F64, dim: int | None) -> tuple[F64, F64]:
    """P(X < t) and the integral of x p(x) up to t, in closed form."""
    if dim is None:
        return special.ndtr(t), -np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)
    half = (dim - 1) / 2
    y = np.clip(t / np.sqrt(dim), -1, 1)
    cdf = 0.5 + 0.5 * np.sign(y) * special.betainc(0.5, half, y * y)
    log_area = special.betaln(0.5, half)
    return cdf, -np.sqrt(dim) * np.exp(half * np.log1p(-np.minimum(y * y, 1 - 1e-300)) - log_area) / (dim - 1)


def _cells(centroids: F64, dim: int | None) -> tuple[F64, F64]:
    """Probability and conditional mean of each centroid's cell."""
    edge = np.inf if dim is None else np.sqrt(dim)
    edges = np.concatenate([[-edge], (centroids[1:] + centroids[:-1]) / 2, [edge]])
    with np.errstate(divide="ignore"):
        cdf, partial = _cdf_and_partial_mean(edges, dim)
    probabilities = np.diff(cdf)
    return probabilities, np.diff(partial) / probabilities


@cache
def lloyd_max(levels: int, dim: int | None = None) -> Codebook:
    """The Lloyd-Max codebook with ``levels`` entries for N(0,1) (dim None) or the sphere in ``dim`` dimensions.

    Lloyd's iteration comes close, then a root finder solves the stationarity condition
    centroid = mean of its cell, since the iteration alone stalls near 1e-8.
    Raises ValueRangeError for levels outside 2..64 or dim below 4.
    """
    check(2 <= levels <= 64, "levels", "2..64", levels, ValueRangeError)
    check(dim is None or dim >= 4, "dim", "None or at least 4", dim, ValueRangeError)
    centroids = special.ndtri((np.arange(levels) + 0.5) / levels) * 1.2
    for _ in range(500):
        centroids = _cells(centroids, dim)[1]
    centroids = optimize.root(lambda c: _cells(c, dim)[1] - c, centroids, tol=1e-15).x
    centroids = (centroids - centroids[::-1]) / 2  # the density is symmetric, so is its optimum
    probabilities, _ = _cells(centroids, dim)
    distortion = 1.0 - float(probabilities @ centroids**2)  # holds at a stationary point
    entropy = -float(probabilities @ np.log2(probabilities))
    for array in (centroids, probabilities):
        array.setflags(write=False)
    return Codebook(centroids, probabilities, distortion, entropy)
