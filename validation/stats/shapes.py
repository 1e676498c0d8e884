"""What per-prompt losses look like: draws of an arm with a given true mean loss.

The spread of KL and top-1 comes from the committed comparison (20 documents, 511 scored tokens each); that of
the others is an assumption and says so in ``source``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tq_core.errors import ValueRangeError, check

CONTEST = Path(__file__).parents[1] / "compare" / "results" / "smollm2-contest.json"
SCORED_TOKENS = 511  # of each document there
TOKENS = 64  # scored in one prompt of a default study
Draw = Callable[[np.random.Generator, tuple[int, int], float], np.ndarray]


@dataclass(frozen=True)
class Shape:
    """``draw(rng, (runs, n_prompts), mean)`` gives losses with that true mean; ``clean`` is the mean of a clean arm.

    ``stress`` marks a shape that no bound over a few dozen prompts holds on: it is reported, not required.
    ``binary``: losses are flips.
    """

    metric: str
    name: str
    unit: str
    clean: float
    budgets: tuple[float, ...]
    draw: Draw
    source: str
    stress: bool = False
    binary: bool = False


def lognormal(cv: float) -> Draw:
    """Positive losses with coefficient of variation ``cv``; the spread grows with the mean."""
    sigma = float(np.sqrt(np.log1p(cv**2)))
    return lambda rng, size, mean: mean * rng.lognormal(-(sigma**2) / 2, sigma, size)


def noise(scale: float, freedom: float = 5.0) -> Draw:
    """Two-sided losses around the mean: Student's t with ``freedom`` degrees, standard deviation ``scale``."""
    unit = scale / np.sqrt(freedom / (freedom - 2))
    return lambda rng, size, mean: mean + unit * rng.standard_t(freedom, size)


def counts(cv: float, tokens: int = TOKENS) -> Draw:
    """Shares of ``tokens``, binomial around a rate that differs between prompts by ``cv``."""
    rates = lognormal(cv)
    return lambda rng, size, mean: rng.binomial(tokens, np.minimum(rates(rng, size, mean), 1)) / tokens


def flips(gained: float) -> Draw:
    """1 lost, -1 gained, 0 alike: gains at the rate ``gained``, losses at that and the mean."""

    def draw(rng: np.random.Generator, size: tuple[int, int], mean: float) -> np.ndarray:
        u = rng.random(size)
        return np.where(u < gained + mean, 1.0, np.where(u > 1 - gained, -1.0, 0.0))

    return draw


def rare(rate: float) -> Draw:
    """Small noise, and a loss of ``mean / rate`` on average that strikes this share of prompts."""
    small = noise(0.02)

    def draw(rng: np.random.Generator, size: tuple[int, int], mean: float) -> np.ndarray:
        return small(rng, size, 0.0) + (rng.random(size) < rate) * rng.exponential(1.0, size) * mean / rate

    return draw


def from_rows(values: Sequence[float] | np.ndarray) -> Draw:
    """Draws with replacement from a clean arm's per-prompt losses.

    For another mean: losses that are never negative are scaled, flips lose more prompts, others are shifted.
    """
    x = np.asarray(values, np.float64)
    own = float(x.mean())
    if np.isin(x, (-1.0, 0.0, 1.0)).all():
        return flips(float((x == -1).mean()))
    if (x >= 0).all() and own > 0:
        return lambda rng, size, mean: rng.choice(x, size) * (mean / own)
    return lambda rng, size, mean: rng.choice(x, size) + (mean - own)


def row_shape(metric: str, values: Sequence[float], budgets: Sequence[float]) -> Shape:
    """Shape of measured rows. Raises ValueRangeError for fewer than 2 values or one that is not finite."""
    x = np.asarray(values, np.float64)
    check(
        x.ndim == 1 and len(x) >= 2 and bool(np.isfinite(x).all()),
        metric,
        "at least two finite values",
        f"{len(x)} values",
        ValueRangeError,
    )
    binary = bool(np.isin(x, (-1.0, 0.0, 1.0)).all())
    source = f"{len(x)} measured rows"
    return Shape(metric, "rows", "", float(x.mean()), tuple(budgets), from_rows(x), source, binary=binary)


def default_shapes() -> list[Shape]:
    """The metrics of a default study with the spread that is known today."""
    found = []
    rows = {row["label"]: row for row in json.loads(CONTEST.read_text())["rows"]}
    for label in ("structured-turbo 3", "best-turbo 3", "kivi-control 3"):
        kl = np.asarray(rows[label]["kl_documents"])
        mean, cv = float(kl.mean()), float(kl.std(ddof=1) / kl.mean())
        found.append(
            Shape(
                "KL",
                label,
                "nats",
                mean,
                (0.02, 0.03, 0.05),
                lognormal(cv),
                f"lognormal, cv {cv:.2f} as measured",
            )
        )
    base = found[0]
    found.append(
        Shape(
            "KL",
            "shorter prompts",
            "nats",
            base.clean,
            base.budgets,
            lognormal(0.7),
            "lognormal, cv 0.70: assumed",
        )
    )
    for label in ("structured-turbo 3", "best-turbo 3"):
        off = 1 - np.asarray(rows[label]["top1_documents"])
        mean = float(off.mean())
        between = max(float(off.var(ddof=1)) - mean * (1 - mean) / SCORED_TOKENS, 0.0)
        cv = float(np.sqrt(between)) / mean
        source = f"{TOKENS} tokens a prompt, rates with cv {cv:.2f} as measured"
        found.append(Shape("top-1 disagreement", label, "share", mean, (0.08, 0.1, 0.12), counts(cv), source))
    for scale in (0.1, 0.3):
        source = f"t with 5 degrees, sd {scale} nats: assumed"
        found.append(
            Shape("answer log-prob loss", f"sd {scale}", "nats", 0.0, (0.05, 0.1, 0.2), noise(scale), source)
        )
    for gained in (0.0, 0.025):
        source = f"{2 * gained:.1%} of prompts flip in a clean arm: assumed"
        found.append(
            Shape(
                "retrieval accuracy loss",
                f"flips {2 * gained:.1%}",
                "share",
                0.0,
                (0.02, 0.05, 0.1, 0.15),
                flips(gained),
                source,
                binary=True,
            )
        )
    found.append(
        Shape(
            "KL",
            "heavy tail",
            "nats",
            base.clean,
            (0.05,),
            lognormal(1.3),
            "lognormal, sigma 0.99: stress",
            True,
        )
    )
    found.append(
        Shape(
            "answer log-prob loss",
            "one in ten",
            "nats",
            0.01,
            (0.1,),
            rare(0.1),
            "a tenth of prompts carries it: stress",
            True,
        )
    )
    return found
