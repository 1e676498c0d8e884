"""Pairing: the same document under two arms gives one difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tq_core.errors import ShapeError, check


def paired(arm: Sequence[float], other: Sequence[float]) -> np.ndarray:
    """Differences arm - other, document by document. Raises ShapeError when the two are not paired."""
    a, b = np.asarray(arm, np.float64), np.asarray(other, np.float64)
    check(
        a.shape == b.shape and a.ndim == 1,
        "other",
        f"shape {a.shape}, one value per document",
        b.shape,
        ShapeError,
    )
    return a - b
