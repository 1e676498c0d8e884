"""RaBitQ's codes: the point of an integer grid with the largest cosine to a unit vector (2405.12497, 2409.09913).

The grid has the points code - (2^B - 1)/2. By symmetry only magnitudes |u| matter, and the best point is round(t |u|)
for some t: t is swept over every value k / |u_i| at which one coordinate takes its next step, which adds |u_i| to the
inner product and 2k to the squared length, and the best ratio is kept.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
ROWS = 256  # vectors searched at a time


def _steps(size: F64, bits: int) -> npt.NDArray[np.int64]:
    """(n, d) magnitudes to steps 0..2^(B-1)-1 away from the innermost grid points +-1/2."""
    top = (1 << (bits - 1)) - 1
    n, d = size.shape
    if top == 0:
        return np.zeros((n, d), np.int64)
    k = np.arange(1, top + 1, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        critical = k / size[:, :, None]
    order = np.argsort(critical.reshape(n, d * top), axis=1, kind="stable")
    gain = np.take_along_axis(np.repeat(size, top, axis=1), order, axis=1)
    growth = np.take_along_axis(np.tile(2 * k, (n, d)), order, axis=1)
    inner = np.cumsum(np.concatenate([size.sum(axis=1, keepdims=True) / 2, gain], axis=1), axis=1)
    length = np.cumsum(np.concatenate([np.full((n, 1), d / 4), growth], axis=1), axis=1)
    best = np.argmax(inner / np.sqrt(length), axis=1)
    taken = np.arange(d * top) < best[:, None]
    flags = np.zeros((n, d * top), np.bool_)
    np.put_along_axis(flags, order, taken, axis=1)
    return flags.reshape(n, d, top).sum(axis=2)


def grid_codes(u: npt.NDArray, bits: int) -> npt.NDArray[np.uint8]:
    """(n, d) unit vectors to codes 0..2^bits - 1; a zero coordinate counts as positive."""
    wide = np.asarray(u, np.float64)
    half = 1 << (bits - 1)
    out = np.empty(wide.shape, np.uint8)
    for first in range(0, len(wide), ROWS):
        rows = wide[first : first + ROWS]
        steps = _steps(np.abs(rows), bits)
        out[first : first + ROWS] = np.where(rows >= 0, half + steps, half - 1 - steps)
    return out


def grid_points(codes: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.float32]:
    """Codes to the grid's coordinates code - (2^bits - 1)/2."""
    return codes.astype(np.float32) - np.float32(((1 << bits) - 1) / 2)
