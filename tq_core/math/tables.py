"""Scoring codes by table lookup with 8-bit partial sums, as turbovec does.

A nibble of the packed codes is one 4-bit code or two 2-bit codes, so a query has 16 partial sums per nibble. Each
table gives up its own minimum and all share one step, the largest span over 127: partial sums become bytes, their
integer sum is exact, and the sum of the minima is a constant of the query. The error is at most half a step per table.
The step is relative to the query, so scaling a query never changes a ranking.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
NIBBLE = 16
TOP = 127


def partial_sums(query: F32, centroids: F32, bits: int) -> F32:
    """query (..., d) in the rotated basis to (..., d * bits / 4, 16): what each nibble adds to the score; bits 2 or 4."""
    nibble = np.arange(NIBBLE)
    if bits == 4:
        return query[..., None] * centroids[nibble]
    return query[..., 0::2, None] * centroids[nibble & 3] + query[..., 1::2, None] * centroids[nibble >> 2]


def quantize_tables(sums: F32) -> tuple[npt.NDArray[np.uint8], F32, F32]:
    """Bytes (..., tables, 16), step (...,) and bias (...,): sums ~ step * bytes, plus the bias in total."""
    low = sums.min(axis=-1, keepdims=True)
    step = (sums - low).max(axis=(-1, -2)) / np.float32(TOP)
    divisor = np.where(step > 0, step, np.float32(1))
    levels = np.minimum(np.rint((sums - low) / divisor[..., None, None]), TOP).astype(np.uint8)
    return levels, step, low.sum(axis=(-1, -2), dtype=np.float32)


def look_up(levels: npt.NDArray[np.uint8], nibbles: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """levels (queries, tables, 16) read at nibbles (n_tokens, tables) and summed: (queries, n_tokens)."""
    tables = np.arange(nibbles.shape[-1])
    out = np.empty((len(levels), len(nibbles)), np.int32)
    for i, one in enumerate(levels):
        out[i] = one[tables, nibbles].sum(axis=-1, dtype=np.int32)
    return out
