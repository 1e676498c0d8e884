"""Bounds of many simulated samples at once, by the method of `judge` and by others that one might use."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from validation.stats.flips import net_loss_at_most
from validation.stats.intervals import RESAMPLES, generator
from validation.stats.noninferiority import FEW, judge

Bounds = Callable[[np.ndarray, float], np.ndarray]  # (runs, n_prompts), confidence -> (runs,)


@lru_cache(maxsize=2)
def _counts(n: int) -> np.ndarray:
    """How often each prompt is in each resample that `judge` draws with seed 0: (RESAMPLES, n) float64."""
    from scipy import stats

    drawn: list[np.ndarray] = []

    def keep(resample: np.ndarray, axis: int = -1) -> np.ndarray:
        if resample.ndim > 1:
            drawn.append((resample[..., None] == np.arange(n)).sum(axis=-2))
        return resample.mean(axis=axis)

    stats.bootstrap(
        (np.arange(n),),
        keep,
        n_resamples=RESAMPLES,
        method="percentile",
        vectorized=True,
        batch=500,
        **generator(0),
    )
    return np.concatenate(drawn).astype(np.float64)


def _resampled(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means less the sample's and standard deviations of every resample: (runs, RESAMPLES) each."""
    n = samples.shape[1]
    x = samples - samples.mean(axis=1, keepdims=True)
    means, squares = x @ _counts(n).T / n, x**2 @ _counts(n).T / n
    return means, np.sqrt(np.maximum(squares - means**2, 0) * n / (n - 1))


def studentised(samples: np.ndarray, confidence: float = 0.95) -> np.ndarray:
    """Bound of the studentised bootstrap."""
    n = samples.shape[1]
    means, spreads = _resampled(samples)
    flat = 1e-12 * np.abs(samples).max(axis=1, keepdims=True)
    means = np.where(np.abs(means) <= flat, 0.0, means)
    t = means / np.maximum(spreads, flat * 1e-9) * np.sqrt(n)
    lowest = np.quantile(t, 1 - confidence, axis=1, method="lower")
    return samples.mean(axis=1) - lowest * _error(samples)


def student(samples: np.ndarray, confidence: float = 0.95) -> np.ndarray:
    """Student's bound."""
    from scipy import stats

    return samples.mean(axis=1) + stats.t.ppf(confidence, samples.shape[1] - 1) * _error(samples)


def percentile(samples: np.ndarray, confidence: float = 0.95) -> np.ndarray:
    """The quantile of the resampled means: too low for few or skewed prompts."""
    return samples.mean(axis=1) + np.quantile(_resampled(samples)[0], confidence, axis=1)


def bca(samples: np.ndarray, confidence: float = 0.95) -> np.ndarray:
    """Upper BCa bound (Efron 1987), as scipy computes it for one sample."""
    from scipy.special import ndtr, ndtri

    means = np.sort(_resampled(samples)[0], axis=1)
    centre = ndtri(((means < 0).mean(axis=1) + (means <= 0).mean(axis=1)) / 2)
    x = samples - samples.mean(axis=1, keepdims=True)
    bend = (x**3).sum(axis=1) / (6 * (x**2).sum(axis=1) ** 1.5)
    z = centre + ndtri(confidence)
    at = np.minimum((ndtr(centre + z / (1 - bend * z)) * RESAMPLES).astype(int), RESAMPLES - 1)
    return samples.mean(axis=1) + means[np.arange(len(means)), at]


def judged(samples: np.ndarray, confidence: float = 0.95) -> np.ndarray:
    """The bound that `judge` gives each run with seed 0; infinite where it gives none."""
    found = np.full(len(samples), np.inf)
    binary = np.all(np.isin(samples, (-1.0, 0.0, 1.0)), axis=1)
    plain = ~binary & ((samples != 0).sum(axis=1) >= FEW) & (np.ptp(samples, axis=1) > 0)
    if plain.any():
        x = samples[plain]
        found[plain] = np.maximum(studentised(x, confidence), student(x, confidence))
    for i in np.flatnonzero(~plain):
        x = samples[i]
        if binary[i] and x.any():
            found[i] = _net(int((x == 1).sum()), int((x == -1).sum()), len(x), confidence)
            continue
        bound = judge(x, 1e100, confidence=confidence, least_n=2).bound
        found[i] = np.inf if bound is None else bound
    return found


def passing(bounds: np.ndarray, budget: float) -> float:
    """Share of runs that pass."""
    return float((bounds < budget).mean())


@lru_cache(maxsize=100_000)
def _net(lost: int, gained: int, n: int, confidence: float) -> float:
    return net_loss_at_most(lost, gained, n, confidence)


def _error(samples: np.ndarray) -> np.ndarray:
    return samples.std(axis=1, ddof=1) / np.sqrt(samples.shape[1])
