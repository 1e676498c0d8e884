"""Paired test of a difference: under no difference every prompt's sign could as well be the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tq_core.errors import ValueRangeError, check
from validation.stats.intervals import RESAMPLES, generator

Alternative = Literal["greater", "less", "two-sided"]
_ALTERNATIVES = ("greater", "less", "two-sided")


@dataclass(frozen=True)
class SignFlips:
    """``p`` is nan when a difference is not finite or there is none: its gate must fail.

    ``least`` is the smallest p that so many non-zero differences could give: above the level that the family
    leaves, no data could reject.
    """

    p: float
    least: float
    n: int
    exact: bool
    note: str


def sign_flip_test(
    differences: Sequence[float] | np.ndarray, alternative: Alternative = "two-sided", seed: int = 0
) -> SignFlips:
    """Sign-flip test of the mean of paired ``differences`` (n_prompts,) against 0.

    Exact when 2^n sign patterns are no more than RESAMPLES, else that many drawn with ``seed``. Raises
    ShapeError for another rank and ValueRangeError for another alternative.
    """
    from scipy import stats

    x = np.asarray(differences, np.float64)
    check(x.ndim == 1, "differences", "shape (n_prompts,)", x.shape)
    check(
        alternative in _ALTERNATIVES, "alternative", " or ".join(_ALTERNATIVES), alternative, ValueRangeError
    )
    n = len(x)
    exact = 2**n <= RESAMPLES if n < 64 else False
    if n == 0 or not np.isfinite(x).all():
        bad = int((~np.isfinite(x)).sum())
        return SignFlips(
            np.nan, 1.0, n, exact, f"{bad} of {n} differences are not finite" if n else "no prompt"
        )
    changed = int((x != 0).sum())
    if changed == 0:
        return SignFlips(1.0, 1.0, n, exact, f"no difference on {n} prompts")
    sides = 2 if alternative == "two-sided" else 1
    least = max(sides * 0.5**changed, 0.0 if exact else sides / (RESAMPLES + 1))
    # With one value scipy has no sample to permute; both signs are as likely.
    if n == 1:
        better = x[0] > 0 if alternative == "greater" else x[0] < 0
        p = 1.0 if alternative == "two-sided" or not better else 0.5
    else:
        found = stats.permutation_test(
            (x,),
            np.mean,
            permutation_type="samples",
            vectorized=True,
            n_resamples=RESAMPLES,
            alternative=alternative,
            **generator(seed, "permutation_test"),
        )
        p = float(found.pvalue)
    return SignFlips(p, min(least, 1.0), n, exact, f"smallest p possible {min(least, 1.0):.2g}")


def permutation_p(
    differences: Sequence[float] | np.ndarray, alternative: Alternative = "two-sided", seed: int = 0
) -> float:
    """``sign_flip_test(...).p``."""
    return sign_flip_test(differences, alternative, seed).p
