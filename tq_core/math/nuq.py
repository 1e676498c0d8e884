"""Non-uniform quantization points for data: weighted k-means on the line (KVQuant, 2401.18079, section 3.3).

Lloyd's iteration on sorted values, whose cells are intervals: cumulative sums give every centroid at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.errors import ShapeError, ValueRangeError, check

F64 = npt.NDArray[np.float64]
MAX_ROUNDS, STILL = 300, 1e-9


def fit_points(values: npt.ArrayLike, count: int, weights: npt.ArrayLike | None = None) -> F64:
    """``count`` ascending points with a small weighted squared error over ``values`` (n,), n at least ``count``.

    Starts from evenly spaced quantiles of the weight; a cell without values keeps its point. Raises ShapeError for too
    few values or weights of another shape, ValueRangeError for weights that are negative or all zero.
    """
    x = np.asarray(values, np.float64).ravel()
    check(x.size >= count, "values", f"{count} values or more", x.size, ShapeError)
    w = np.ones_like(x) if weights is None else np.asarray(weights, np.float64).ravel()
    check(w.shape == x.shape, "weights", f"{x.size} weights", w.size, ShapeError)
    usable = bool(np.isfinite(w).all()) and w.min() >= 0 and w.max() > 0
    check(usable, "weights", "finite weights of 0 or more, not all 0", "others", ValueRangeError)
    order = np.argsort(x, kind="stable")
    x, w = x[order], w[order]
    mass = np.concatenate([[0.0], np.cumsum(w)])
    moment = np.concatenate([[0.0], np.cumsum(w * x)])
    starts = np.searchsorted(mass[1:], (np.arange(count) + 0.5) / count * mass[-1])
    points = x[np.minimum(starts, x.size - 1)]
    for _ in range(MAX_ROUNDS):
        edges = np.concatenate([[0], np.searchsorted(x, (points[1:] + points[:-1]) / 2), [x.size]])
        inside = np.diff(mass[edges])
        means = np.diff(moment[edges]) / np.where(inside > 0, inside, 1.0)
        moved = np.where(inside > 0, means, points)
        still = float(np.abs(moved - points).max()) <= STILL * max(float(np.abs(points).max()), 1e-300)
        points = np.sort(moved)
        if still:
            break
    return points


def nearest(x: npt.NDArray, points: npt.NDArray) -> npt.NDArray[np.uint8]:
    """Index of the nearest of at most 256 ascending points; a value halfway between two takes the lower one."""
    return np.searchsorted((points[1:] + points[:-1]) / 2, x, side="left").astype(np.uint8)
