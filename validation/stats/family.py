"""A family of claims of difference, and the exact test of flips.

Holm's correction is for claims of difference. Gates that must all pass need none (intersection-union).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tq_core.errors import ValueRangeError, check


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values, in the order given.

    A p that is not a number counts in the family and stays nan: it can never reject, and `rejected` says so.
    Raises ValueRangeError for a p outside 0..1.
    """
    from statsmodels.stats.multitest import multipletests

    p = np.asarray(p_values, np.float64)
    check(p.ndim == 1, "p_values", "a list of numbers", p.shape)
    known = ~np.isnan(p)
    check(bool(((p[known] >= 0) & (p[known] <= 1)).all()), "p_values", "in 0..1", p_values, ValueRangeError)
    if not len(p):
        return []
    # As 1 an unknown p is counted and ranks last, so that no other claim gains from it.
    adjusted = multipletests(np.where(known, p, 1.0), alpha=0.05, method="holm")[1]
    return [float(a) if ok else math.nan for a, ok in zip(adjusted, known, strict=True)]


def rejected(adjusted: float, alpha: float = 0.05) -> bool:
    """Whether a difference is claimed; never for nan."""
    return bool(adjusted <= alpha)


def mcnemar_p(lost: int, gained: int) -> float:
    """Exact two-sided McNemar test that losses and gains are equally likely; 1 without any flip.

    Raises ValueRangeError for a negative count.
    """
    from statsmodels.stats.contingency_tables import mcnemar

    check(lost >= 0 and gained >= 0, "lost, gained", "at least 0", (lost, gained), ValueRangeError)
    if lost + gained == 0:
        return 1.0
    return float(min(1.0, mcnemar([[0, lost], [gained, 0]], exact=True).pvalue))
