"""Non-inferiority: an arm passes when the one-sided upper bound of its mean loss is below the budget.

A difference that is not significant is not a pass: with few prompts nothing is significant. A degenerate
sample has a named outcome, since a bound of nan or of width zero has passed for certainty before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tq_core.errors import ValueRangeError, check
from validation.stats import power
from validation.stats.flips import net_loss_at_most
from validation.stats.intervals import MIN_DOCUMENTS
from validation.stats.mean_bound import METHOD, SKEWED, skewness, upper_mean
from validation.stats.shares import share_at_most

EXACT = "exact bound of paired flips"
SPARSE = "exact bound of the share of prompts with a loss, times the largest difference seen"
IDENTICAL = "identical"
NONE = "none"
FEW = 5  # fewer prompts than these that differ say too little of how the others are spread


_Chance = tuple["float | None", "int | None"]
_Outcome = Callable[..., "NonInferiority"]


@dataclass(frozen=True)
class NonInferiority:
    """Outcome of one metric. ``passes`` is None when it was not exercised; ``note`` then says why.

    ``loss`` is the mean; ``bound`` the upper bound of it, None where none can be given. ``power`` is the chance
    to pass with ``n`` prompts and the observed spread for an arm of the true loss that ``judge`` was told (0
    unless told), and ``needed_n`` the prompts for 80 %; both None where the sample shows no spread.
    """

    n: int
    least_n: int
    loss: float | None
    bound: float | None
    budget: float
    passes: bool | None
    method: str
    note: str
    power: float | None
    needed_n: int | None

    @property
    def status(self) -> str:
        """As gates say it: pass, fail, not exercised."""
        return {True: "pass", False: "fail", None: "not exercised"}[self.passes]

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {**asdict(self), "status": self.status}


def judge(
    losses: Sequence[float] | np.ndarray,
    budget: float,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    least_n: int = MIN_DOCUMENTS,
    true_loss: float = 0.0,
    identical_passes: bool = True,
) -> NonInferiority:
    """Judge paired ``losses`` (n_prompts,), positive = worse, against ``budget`` in the same unit.

    The unit is the prompt: average seeds and tokens within it first. Losses in {-1, 0, 1} are flips and get an
    exact bound (`flips`); all others the bound of `mean_bound`, unless fewer than FEW prompts differ from 0: then
    losses are taken to be no larger than the largest difference seen, and their share is bounded exactly.
    ``true_loss`` is that of a clean arm, for the power. A value that is not finite fails; fewer than ``least_n``
    prompts, or equal losses that are not zero and below the budget, are not exercised.

    Zero on every prompt passes as identical, with the rule of three in the note. For flips that is lenient:
    an arm at a budget of 0.05 shows no flip on 40 prompts in 13 % of runs. ``identical_passes=False`` holds such
    data against the exact bound of a share instead. Raises ShapeError for another rank and ValueRangeError for
    a budget that is not above 0, a confidence outside 0.5..1 or a least_n below 2.
    """
    x = np.asarray(losses, np.float64)
    check(x.ndim == 1, "losses", "shape (n_prompts,)", x.shape)
    check(math.isfinite(budget) and budget > 0, "budget", "more than 0", budget, ValueRangeError)
    check(0.5 < confidence < 1, "confidence", "more than 0.5 and less than 1", confidence, ValueRangeError)
    check(least_n >= 2, "least_n", "at least 2", least_n, ValueRangeError)
    n, budget = len(x), float(budget)

    def outcome(
        passes: bool | None,
        method: str,
        note: str,
        bound: float | None = None,
        chance: _Chance = (None, None),
    ) -> NonInferiority:
        loss = float(x.mean()) if n and np.isfinite(x).all() else None
        return NonInferiority(n, least_n, loss, bound, budget, passes, method, note, *chance)

    if not np.isfinite(x).all():
        bad = int((~np.isfinite(x)).sum())
        return outcome(False, NONE, f"{bad} of {n} prompts have no finite value")
    if n < least_n:
        return outcome(None, NONE, f"{n} prompts; at least {least_n} are needed")
    if not x.any():
        return _zero(outcome, n, budget, confidence, identical_passes)
    if np.isin(x, (-1.0, 0.0, 1.0)).all():
        return _flips(outcome, x, budget, confidence)
    if np.ptp(x) == 0:
        note = f"the same loss on all {n} prompts; width zero is not certainty"
        return outcome(None if x[0] < budget else False, NONE, note)
    margin = budget - true_loss
    chance = (
        power.power_mean(float(x.std(ddof=1)), margin, n, confidence=confidence),
        power.needed_mean(float(x.std(ddof=1)), margin, confidence=confidence),
    )
    changed = int((x != 0).sum())
    bound = upper_mean(x, confidence, seed) if changed >= FEW else None
    if bound is not None:
        skew = skewness(x)
        note = f"skewness {skew:.1f}: a bound over so few prompts may be too low" if skew > SKEWED else ""
        return outcome(bound < budget, METHOD, note, bound, chance)
    bound = float(np.abs(x).max()) * share_at_most(int((x > 0).sum()), n, confidence)
    note = f"only {changed} of {n} prompts differ; a rate below {3 / n:.2g} of larger losses could hide"
    return outcome(bound < budget, SPARSE, note, bound, chance)


def _zero(
    outcome: _Outcome, n: int, budget: float, confidence: float, identical_passes: bool
) -> NonInferiority:
    note = f"identical on {n} prompts; a rate below {3 / n:.2g} could hide (rule of three)"
    needed = power.without_loss(budget, confidence) if budget < 1 else None
    if not identical_passes:
        bound = share_at_most(0, n, confidence)
        return outcome(bound < budget, EXACT, note, bound, (None, needed))
    if needed is not None and n < needed:
        note += f"; {needed} prompts would exclude the budget for a loss of all or nothing"
    return outcome(True, IDENTICAL, note, 0.0, (None, needed))


def _flips(outcome: _Outcome, x: np.ndarray, budget: float, confidence: float) -> NonInferiority:
    n, lost, gained = len(x), int((x == 1).sum()), int((x == -1).sum())
    bound = net_loss_at_most(lost, gained, n, confidence)
    chance: _Chance = (None, None)
    if budget < 1:
        flipped = (lost + gained) / n
        chance = (
            power.power_binary(flipped, budget, n, confidence=confidence),
            power.needed_binary(flipped, budget, confidence=confidence),
        )
    return outcome(bound < budget, EXACT, f"{lost} lost and {gained} gained of {n}", bound, chance)
