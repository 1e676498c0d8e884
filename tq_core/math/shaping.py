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
# What the first scale is divided by, in turn; the start that leaves the least squared error is kept. The fewer coordinates
# a row has and the finer its codes, the more a grid that ends near the row's own largest coordinate gains.
STARTS = tuple(np.float32(m) for m in (1.0, 1.25, 1.15, 1.0625, 0.9375, 0.875, 0.8125))


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
    rounding from the best start. Ties go to the lower cell. A row of zeros gets scale 0; a scale beyond float16 its
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

    codes, c = _start(y, inverse(), widths, books)
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


def _start(
    y: F32, unit: F32, widths: npt.NDArray[np.uint8], books: Books
) -> tuple[npt.NDArray[np.uint8], F32]:
    """Codes and centroids of the nearest rounding whose fitted scale leaves the least squared error, of all STARTS."""
    zero, most = np.float32(0), np.full(len(y), -1, np.float32)
    codes, c = np.zeros(y.shape, np.uint8), np.zeros_like(y)
    for start in STARTS:
        tried = nearest_codes(y * (unit * start)[:, None], widths, books)
        centroids = centroid_values(tried, widths, books)
        towards = dot(y, centroids)
        explained = np.where(towards > zero, towards * towards / lane_sum(centroids * centroids), zero)
        better = explained > most
        most = np.where(better, explained, most)
        codes, c = np.where(better[:, None], tried, codes), np.where(better[:, None], centroids, c)
    return codes, c
