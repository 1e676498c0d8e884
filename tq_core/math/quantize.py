"""Quantizing rotated vectors against a codebook, and the one scale that is stored with the codes.

With t the rotated vector in standardised coordinates, c its centroids and rho = ||x||, the
reconstruction in the rotated basis is ``scale * c``. Four rules for the scale (EDEN, DRIVE,
2504.19874, and vLLM's norm correction) cost the same 16 bits:

    paper     rho / sqrt(d)                    S = 1
    unbiased  rho sqrt(d) / <t, c>             <x, x_hat> = ||x||^2 for every vector
    min_mse   rho <t, c> / (sqrt(d) ||c||^2)   least squared error for every vector
    matched   rho / ||c||                      ||x_hat|| = ||x||
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tq_core.math.books import BOOK_LEVELS, Books, book_rows
from tq_core.math.hadamard import transform
from tq_core.math.lanes import dot, lane_sum, round_even

Array = npt.NDArray[np.float32]
# Largest magnitude whose high byte, after taking the signed low byte off, still fits in int8:
# 127 * 256 + 127. Kernels with 8-bit multipliers split a 16-bit integer that way.
QUERY_MAX = np.float32(32639)
SMALL_MAX = np.float32(127)  # the same for multipliers of one byte
# Rows whose largest magnitude is not above this are stored as zeros: QUERY_MAX / TINY is still finite.
TINY = np.float32(1e-34)


class NormMode(IntEnum):
    """Rule for the stored scale; the value is what the kernels receive."""

    paper = 0
    unbiased = 1
    min_mse = 2
    matched = 3


def centroid_values(codes: npt.NDArray[np.uint8], widths: npt.NDArray[np.uint8], books: Books) -> Array:
    """(n, head_dim) level numbers to centroids in float32, group by group."""
    out = np.empty(codes.shape, np.float32)
    for group, row in enumerate(book_rows(widths)):
        span = slice(16 * group, 16 * group + 16)
        out[:, span] = books.row_centroids(row)[codes[:, span]]
    return out


def nearest_codes(t: Array, widths: npt.NDArray[np.uint8], books: Books) -> npt.NDArray[np.uint8]:
    """Number of boundaries below each coordinate: a tie goes to the lower cell."""
    codes = np.empty(t.shape, np.uint8)
    for group, row in enumerate(book_rows(widths)):
        span = slice(16 * group, 16 * group + 16)
        inner = books.boundaries[row, : BOOK_LEVELS[row] - 1]
        codes[:, span] = (t[:, span, None] > inner).sum(axis=-1)
    return codes


def encode_rows(
    x: Array,
    signs: Array,
    hadamard: Array,
    widths: npt.NDArray[np.uint8],
    books: Books,
    mode: NormMode,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
    """Codes (n, head_dim) uint8 and scales (n,) as float16 bits of vectors x (n, head_dim) float32.

    The Hadamard transform is left unnormalised: its coordinates divided by rho already have unit
    variance. A zero vector gets the codes of t = 0 and scale 0.
    """
    one, zero = np.float32(1), np.float32(0)
    d = np.float32(x.shape[-1])
    rho = np.sqrt(lane_sum(x * x))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse = np.where(rho > zero, one / rho, zero)
        t = transform(signs * x, hadamard) * inverse[:, None]
        codes = nearest_codes(t, widths, books)
        c = centroid_values(codes, widths, books)
        tc, cc, root_d = dot(t, c), lane_sum(c * c), np.sqrt(d)
        if mode == NormMode.paper:
            scale = rho / root_d
        elif mode == NormMode.unbiased:
            scale = np.where(tc > zero, (rho * root_d) / tc, zero)
        elif mode == NormMode.min_mse:
            scale = (rho * tc) / (root_d * cc)
        else:
            scale = rho / np.sqrt(cc)
        return codes, scale.astype(np.float16).view(np.uint16)


def quantize_symmetric(x: Array, limit: np.float32 = QUERY_MAX) -> tuple[npt.NDArray[np.int32], Array]:
    """Rows of x to integers of magnitude at most ``limit`` and the step of each row: x ~ integer * step."""
    zero = np.float32(0)
    largest = np.abs(x).max(axis=-1, initial=zero)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = np.where(largest > TINY, limit / largest, zero)
        scaled = x * inverse[..., None]
    bounded = np.minimum(np.maximum(scaled, -limit), limit)
    return round_even(bounded).astype(np.int32), largest * (np.float32(1) / limit)
