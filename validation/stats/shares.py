"""Exact one-sided bounds of a share (Clopper and Pearson 1934)."""

from __future__ import annotations

from tq_core.errors import ValueRangeError, check


def share_at_least(hits: int, n: int, confidence: float = 0.95) -> float:
    """One-sided lower bound of a share after ``hits`` in ``n`` trials (Clopper-Pearson, exact).

    Raises ValueRangeError unless 0 <= hits <= n and n >= 1.
    """
    from scipy import stats

    check(n >= 1 and 0 <= hits <= n, "hits", f"0..{n}, of at least one trial", hits, ValueRangeError)
    found = stats.binomtest(hits, n, alternative="greater").proportion_ci(confidence, "exact")
    return float(found.low)


def share_at_most(hits: int, n: int, confidence: float = 0.95) -> float:
    """One-sided upper bound of a share after ``hits`` in ``n`` trials (Clopper-Pearson, exact).

    Raises ValueRangeError unless 0 <= hits <= n and n >= 1.
    """
    from scipy import stats

    check(n >= 1 and 0 <= hits <= n, "hits", f"0..{n}, of at least one trial", hits, ValueRangeError)
    found = stats.binomtest(hits, n, alternative="less").proportion_ci(confidence, "exact")
    return float(found.high)
