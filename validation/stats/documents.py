"""Two-sided intervals of a mean. The unit is the document: tokens of one text are not independent."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from tq_core.errors import ValueRangeError, check
from validation.stats.intervals import MIN_DOCUMENTS, RESAMPLES, Interval, generator

BLOCK_TOKENS = 32


def document_interval(values: Sequence[float] | np.ndarray, level: float = 0.95, seed: int = 0) -> Interval:
    """BCa bootstrap interval of the mean of one number per document (n_documents,).

    Fails closed: no bounds for a value that is not finite, or for fewer than MIN_DOCUMENTS documents.
    Equal values give a point and a note, since resampling them shows nothing. Raises ShapeError for
    another rank and ValueRangeError for a level outside 0.5..1.
    """
    from scipy import stats

    x = np.asarray(values, np.float64)
    check(x.ndim == 1, "values", "shape (n_documents,)", x.shape)
    check(0.5 < level < 1, "level", "more than 0.5 and less than 1", level, ValueRangeError)
    n = len(x)

    def result(low: float | None, high: float | None, method: str, note: str) -> Interval:
        return Interval(low, high, level, n, method, "documents like these", note, seed)

    if not np.isfinite(x).all():
        return result(
            None, None, "none", f"{int((~np.isfinite(x)).sum())} of {n} documents have no finite value"
        )
    if n < MIN_DOCUMENTS:
        return result(None, None, "none", f"{n} documents; at least {MIN_DOCUMENTS} are needed")
    if not x.any():
        return result(
            0.0,
            0.0,
            "identical",
            f"zero on all {n} documents; a rate below {3 / n:.2g} could hide (rule of three)",
        )
    if np.ptp(x) == 0:
        return result(
            float(x[0]),
            float(x[0]),
            "identical",
            f"the same value on all {n} documents; width zero is not certainty",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = stats.bootstrap(
                (x,), np.mean, n_resamples=RESAMPLES, method="BCa", confidence_level=level, **generator(seed)
            ).confidence_interval
        except (RuntimeWarning, stats.DegenerateDataWarning) as problem:
            return result(None, None, "none", f"the bootstrap is degenerate: {problem}")
    if not (np.isfinite(found.low) and np.isfinite(found.high)):
        return result(None, None, "none", "the bootstrap gave no finite bounds")
    return result(float(found.low), float(found.high), "BCa bootstrap over documents", "")


def block_interval(
    documents: Sequence[np.ndarray], level: float = 0.95, seed: int = 0, block: int = BLOCK_TOKENS
) -> Interval:
    """Percentile interval of the mean of per-document token means, resampling blocks of tokens within documents.

    Exploratory: it covers tokens within these documents only, not other documents; the spread between
    documents is usually several times larger. Raises ValueRangeError for an empty document.
    """
    n = len(documents)
    check(
        n > 0 and all(len(d) > 0 for d in documents),
        "documents",
        "at least one, none empty",
        n,
        ValueRangeError,
    )
    covers = f"tokens within these {n} texts only"
    arrays = [np.asarray(d, np.float64) for d in documents]
    if not all(np.isfinite(a).all() for a in arrays):
        return Interval(None, None, level, n, "none", covers, "a value is not finite", seed)
    if not any(a.any() for a in arrays):
        return Interval(
            0.0, 0.0, level, n, "identical", covers, f"zero on all {sum(map(len, arrays))} tokens", seed
        )
    rng = np.random.default_rng(seed)
    means = np.zeros(2000)
    for a in arrays:
        starts = np.arange(0, len(a), block)
        sums, counts = np.add.reduceat(a, starts), np.diff(np.append(starts, len(a)))
        pick = rng.integers(len(starts), size=(len(means), len(starts)))
        means += sums[pick].sum(axis=1) / counts[pick].sum(axis=1) / n
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    note = f"exploratory; {n} documents are fewer than the {MIN_DOCUMENTS} needed to speak of other texts"
    if n >= MIN_DOCUMENTS:
        note = "exploratory"
    return Interval(
        float(low), float(high), level, n, f"bootstrap of {block}-token blocks", covers, note, seed
    )


def interval(documents: Sequence[np.ndarray], level: float = 0.95, seed: int = 0) -> Interval:
    """The interval that so many documents allow: over documents, else over tokens within them, labelled.

    ``documents`` holds one array of per-token values per document; the mean of their means is estimated.
    """
    check(len(documents) > 0, "documents", "at least one", 0, ValueRangeError)
    if len(documents) >= MIN_DOCUMENTS:
        return document_interval(
            [float(np.mean(d)) if len(d) else float("nan") for d in documents], level, seed
        )
    return block_interval(documents, level, seed)
