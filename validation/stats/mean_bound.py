"""One-sided upper bound of a mean loss that keeps its level on skewed losses at a few dozen prompts.

A loss has its tail on the bad side, and there the usual bounds are too low: they pass an arm that stands
exactly at its budget more often than 5 % of the time. ``results/calibration.json`` (section ``methods``) holds
the shares by shape and number of prompts. On the shape of measured KL, at 20 prompts, the percentile bound
passes such an arm 9 % of the time, BCa 7 to 8 %, the studentised bootstrap 5 to 7 %; at 40 prompts BCa 5 to 6 %,
the studentised bootstrap 5 %. On symmetric noise with heavy tails it passes 6 % and Student's bound 5 %, so the
larger of both is taken. On a lognormal with sigma 1 nothing here keeps 5 % (8 to 11 % at 20 to 60 prompts), and
a loss that strikes one prompt in ten is not seen at all in 12 % of samples of 20. The note says when the sample
is that skewed; only more prompts help.
"""

from __future__ import annotations

import numpy as np

from validation.stats.intervals import RESAMPLES, generator

METHOD = "larger of the studentised bootstrap's and Student's bound, over prompts"
SKEWED = 2.0  # above it, measured shapes pass an arm at its budget clearly more often than the level says
_UNBOUNDED = 1e9  # stands for the infinite t of a resample without spread
_BATCH_VALUES = 1_000_000


def upper_mean(losses: np.ndarray, confidence: float = 0.95, seed: int = 0) -> float | None:
    """Upper bound of the mean of independent ``losses`` (n_prompts,), float64, finite and not all equal.

    None when so few prompts differ from the rest that more than ``1 - confidence`` of the resamples have no
    spread. Sources: Efron and Tibshirani 1993, section 12.5 (bootstrap-t); Student's one-sided bound.
    """
    from scipy import stats

    n, mean = len(losses), float(losses.mean())
    error = float(losses.std(ddof=1)) / np.sqrt(n)
    flat = 1e-12 * float(np.abs(losses).max())

    def studentised(resample: np.ndarray, axis: int = -1) -> np.ndarray:
        away = resample.mean(axis=axis) - mean
        spread = resample.std(axis=axis, ddof=1) / np.sqrt(n)
        away = np.where(np.abs(away) <= flat, 0.0, away)
        return np.clip(away / np.maximum(spread, flat * 1e-9), -_UNBOUNDED, _UNBOUNDED)

    found = stats.bootstrap(
        (losses,),
        studentised,
        n_resamples=RESAMPLES,
        method="percentile",
        vectorized=True,
        batch=max(1, _BATCH_VALUES // n),
        **generator(seed),
    )
    lowest = float(np.quantile(found.bootstrap_distribution, 1 - confidence, method="lower"))
    if lowest <= -_UNBOUNDED:
        return None
    return mean + float(max(-lowest, stats.t.ppf(confidence, n - 1)) * error)


def skewness(losses: np.ndarray) -> float:
    """Skewness of a sample that has spread (Fisher-Pearson, biased)."""
    from scipy import stats

    return float(stats.skew(losses))
