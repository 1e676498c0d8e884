"""Codes that keep the error out of the directions that matter: coordinate descent under a quadratic metric.

A vector y is stored as ``scale * c``, c a centroid per coordinate. Rounding each coordinate to its nearest centroid makes
||y - scale c|| small. What is read is a product with a query, or a sum that a projection follows, and there an error e
costs e^T M e: with M the queries' second moment, the mean squared error of a score. Sweeps over the coordinates take,
one after another, the centroid that is best given all others, and refit the scale after each sweep. Pages, books and
what reads them stay as they are; only the encoder works more, head_dim^2 products per vector and sweep at most.

The idea is that of GPTQ and its kin for weights (2210.17323) and, older, noise shaping and the closest-point search in a
lattice; here M belongs to a KV head and rows are tokens. For large head_dim and fine codes nearest rounding costs the
arithmetic mean of M's eigenvalues, perfect shaping their geometric mean.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.math.books import BOOK_LEVELS, Books, book_rows
from tq_core.math.lanes import dot, lane_sum
from tq_core.math.quantize import centroid_values, nearest_codes

F32 = npt.NDArray[np.float32]
SCALE_MAX = np.float32(65504)


def times_matrix(x: F32, matrix: F32) -> F32:
    """x M for rows x (n, d) and M (d, d), row j of M added after row j - 1: no sum across lanes, so one order everywhere."""
    out = np.zeros_like(x)
    for j in range(len(matrix)):
        out = out + x[:, j, None] * matrix[j]
    return out


def shape_rows(
    y: F32, metric: F32, widths: npt.NDArray[np.uint8], books: Books, passes: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
    """Codes (n, head_dim) uint8 and scales (n,) as float16 bits of rows y (n, head_dim) float32.

    metric: (head_dim, head_dim) float32, symmetric, positive definite. passes: sweeps over all coordinates; 0 is nearest
    rounding with a refitted scale. Ties go to the lower cell. A row of zeros gets scale 0; a scale beyond float16 its
    largest number.
    """
    with np.errstate(all="ignore"):  # huge rows overflow on every backend alike
        return _shape(y, metric, widths, books, passes)


def _shape(
    y: F32, metric: F32, widths: npt.NDArray[np.uint8], books: Books, passes: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
    one, zero = np.float32(1), np.float32(0)
    d = y.shape[1]
    rows, steps = book_rows(widths), one / np.diag(metric)
    edges = [books.boundaries[row, : BOOK_LEVELS[row] - 1] for row in rows]
    centroids = [books.row_centroids(row) for row in rows]
    scale = np.sqrt(lane_sum(y * y)) / np.sqrt(np.float32(d))
    pull = times_matrix(y, metric)

    def inverse() -> F32:
        return np.where(scale > zero, one / scale, zero)

    codes = nearest_codes(y * inverse()[:, None], widths, books)
    c = centroid_values(codes, widths, books)
    held = times_matrix(c, metric)

    def refitted() -> F32:
        towards, size = dot(y, held), dot(c, held)
        return np.where((towards > zero) & (size > zero), towards / size, scale)

    scale = refitted()
    for _ in range(passes):
        unit = inverse()
        for i in range(d):
            wanted = c[:, i] - (held[:, i] - unit * pull[:, i]) * steps[i]
            codes[:, i] = (wanted[:, None] > edges[i // 16]).sum(axis=1)
            best = centroids[i // 16][codes[:, i]]
            held = held + (best - c[:, i])[:, None] * metric[i]
            c[:, i] = best
        scale = refitted()
    return codes, np.where(scale < SCALE_MAX, scale, SCALE_MAX).astype(np.float16).view(np.uint16)
