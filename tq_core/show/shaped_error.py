"""Where the error of a code goes: nearest rounding beside codes that are shaped by a metric, direction by direction."""

from __future__ import annotations

import numpy as np

from tq_core.math.books import load_books, widths_for
from tq_core.math.quantize import centroid_values
from tq_core.math.shaping import shape_rows

PARTS = 8


def error_by_direction(
    bits: float = 3, head_dim: int = 64, rows: int = 512, passes: int = 3
) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, float]]:
    """(weight of each eighth of the directions, error variance there by way of coding, score error by way of coding).

    Gaussian rows of unit variance; the metric's eigenvalues fall from 16 to 1/16 in a random basis, as for queries that
    look at some directions more than at others. The score error is the mean of e^T M e per channel.
    """
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.standard_normal((head_dim, head_dim)))[0]
    weights = np.geomspace(16, 1 / 16, head_dim)
    metric = ((basis * weights) @ basis.T).astype(np.float32)
    y = rng.standard_normal((rows, head_dim)).astype(np.float32)
    widths, books = widths_for(bits, head_dim), load_books()
    errors, scores = {}, {}
    for name, sweeps in (("nearest", 0), ("shaped", passes)):
        codes, scales = shape_rows(y, metric, widths, books, sweeps)
        e = (
            y - scales.view(np.float16).astype(np.float64)[:, None] * centroid_values(codes, widths, books)
        ) @ basis
        errors[name] = (e**2).mean(axis=0).reshape(PARTS, -1).mean(axis=1)
        scores[name] = float((e**2 * weights).mean())
    return weights.reshape(PARTS, -1).mean(axis=1), errors, scores
