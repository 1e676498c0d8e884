"""How many prompts a budget needs, and the chance that a clean arm passes with those at hand."""

from __future__ import annotations

import math

from tq_core.errors import ValueRangeError, check

POWER = 0.8
_CERTAIN = 30.0  # standard errors; the distribution is not computed reliably further out


def needed_binary(
    discordance: float, margin: float, *, confidence: float = 0.95, power: float = POWER
) -> int:
    """Prompts to show a net loss below ``margin`` when the true one is 0 and ``discordance`` of the prompts flip.

    n = (z_confidence + z_power)^2 discordance / margin^2, but no fewer than the prompts after which zero losses
    exclude ``margin`` exactly. Both are shares in 0..1; raises ValueRangeError otherwise.
    """
    check(0 <= discordance <= 1, "discordance", "a share in 0..1", discordance, ValueRangeError)
    check(0 < margin < 1, "margin", "more than 0 and less than 1", margin, ValueRangeError)
    formula = (_z(confidence) + _z(power)) ** 2 * discordance / margin**2
    return max(math.ceil(formula), without_loss(margin, confidence))


def without_loss(rate: float, confidence: float = 0.95) -> int:
    """Prompts without one loss that exclude a loss rate of ``rate``: the rule of three, exactly."""
    check(0 < rate < 1, "rate", "more than 0 and less than 1", rate, ValueRangeError)
    return math.ceil(math.log(1 - confidence) / math.log(1 - rate))


def power_binary(discordance: float, margin: float, n: int, *, confidence: float = 0.95) -> float:
    """Chance to pass at true net loss 0, in the normal approximation; 0 below ``without_loss(margin)`` prompts."""
    from scipy import stats

    if margin <= 0 or (margin < 1 and n < without_loss(margin, confidence)):
        return 0.0
    if discordance == 0:
        return 1.0
    return float(stats.norm.cdf(margin / math.sqrt(discordance / n) - _z(confidence)))


def power_mean(sd: float, margin: float, n: int, *, confidence: float = 0.95) -> float:
    """Chance that the one-sided t bound of a mean with spread ``sd`` lies less than ``margin`` above the true mean.

    ``margin`` is budget minus true loss; not above 0 the chance is at most ``1 - confidence``.
    """
    from scipy import stats

    check(sd > 0 and n >= 2, "sd, n", "some spread and at least 2 prompts", (sd, n), ValueRangeError)
    away = margin / sd * math.sqrt(n)
    if abs(away) > _CERTAIN:
        return float(away > 0)
    return float(stats.nct.sf(stats.t.ppf(confidence, n - 1), n - 1, away))


def needed_mean(sd: float, margin: float, *, confidence: float = 0.95, power: float = POWER) -> int | None:
    """Prompts for ``power_mean`` to reach ``power``; None when ``margin`` is not above 0: no number is enough."""
    if margin <= 0:
        return None
    n = max(2, math.ceil(((_z(confidence) + _z(power)) * sd / margin) ** 2))
    while power_mean(sd, margin, n, confidence=confidence) < power:
        n += 1
    return n


def _z(share: float) -> float:
    from scipy import stats

    return float(stats.norm.ppf(share))
