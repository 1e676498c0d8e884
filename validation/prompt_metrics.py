"""Metrics of one prompt: the unit of every interval and test. Each has a value to show and a loss to judge.

A loss is 0 where the arm does what the reference does, and grows as it does worse; budgets and tests are about its mean.
Tokens of one prompt are not independent, so they are reduced to one number here, before any statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from validation.engine.reading import Reading

Needs = Literal["scores", "alternatives", "reply"]
Pair = Callable[[Reading, Reading], float]


@dataclass(frozen=True)
class PromptMetric:
    """value(arm, reference) is shown; loss(arm, reference) is judged, in ``unit``. binary: losses are -1, 0 or 1.

    saturates: cannot show a small loss where the reference is right on every prompt.
    """

    name: str
    title: str
    formula: str
    unit: str
    higher_is_better: bool
    needs: Needs
    value: Pair
    loss: Pair
    binary: bool = False
    saturates: bool = False

    def describe(self) -> dict[str, object]:
        """JSON-able form, without the functions."""
        return {
            n: getattr(self, n)
            for n in ("name", "title", "formula", "unit", "higher_is_better", "needs", "binary")
        }

    def applies(self, reading: Reading) -> bool:
        """Whether a reading has what the metric needs."""
        if self.needs == "alternatives":
            return len(reading.alternatives) >= 2
        return reading.generated is not None if self.needs == "reply" else len(reading.scores) > 0


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values, dtype=np.float64))


def right(alternatives: np.ndarray) -> float:
    """1 when the first alternative is the most likely one, else 0."""
    return float(alternatives[0] > alternatives[1:].max())


def log_odds(alternatives: np.ndarray) -> float:
    """ln p(first) minus ln p of the best other one, in nats."""
    return float(alternatives[0] - alternatives[1:].max())


def right_share(alternatives: np.ndarray) -> float:
    """Probability of the first alternative among all of them."""
    p = np.exp(alternatives - alternatives.max())
    return float(p[0] / p.sum())


def choice(alternatives: np.ndarray) -> int:
    """Index of the most likely alternative; among equals the first."""
    return int(np.argmax(alternatives))


def first_difference(a: list[int], b: list[int]) -> int | None:
    """Index of the first token in which two replies differ, None for equal replies."""
    shared = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return None if shared == len(a) == len(b) else shared


def _shared(arm: Reading, ref: Reading) -> float:
    ours, theirs = arm.generated or [], ref.generated or []
    at = first_difference(ours, theirs)
    return 1.0 if at is None else at / max(len(ours), len(theirs))


PROMPT_METRICS: dict[str, PromptMetric] = {
    m.name: m
    for m in (
        PromptMetric(
            "kl_mean", "Next-token KL, mean over the prompt", "mean_t sum_v p_v (ln p_v - ln q_v), P = reference", "nats", False,
            "scores", lambda a, r: _mean(a.scores.kl), lambda a, r: _mean(a.scores.kl),
        ),
        PromptMetric(
            "top1_agreement", "Same top token", "mean_t [argmax p = argmax q]; loss = 1 - that", "share of tokens", True,
            "scores", lambda a, r: _mean(a.scores.same_top), lambda a, r: 1 - _mean(a.scores.same_top),
        ),
        PromptMetric(
            "answer_logprob", "Log-probability of the answer, per token", "-mean_t NLL_q; loss = mean_t (NLL_q - NLL_p)", "nats", True,
            "scores", lambda a, r: -_mean(a.scores.nll), lambda a, r: _mean(a.scores.nll - a.scores.nll_reference),
        ),
        PromptMetric(
            "log_odds", "Log-odds of the right alternative", "ln q(right) - max ln q(other); loss = reference - arm", "nats", True,
            "alternatives", lambda a, r: log_odds(a.alternatives), lambda a, r: log_odds(r.alternatives) - log_odds(a.alternatives),
        ),
        PromptMetric(
            "right_share", "Probability of the right alternative among all", "q(right) / sum over alternatives; loss = reference - arm",
            "share of probability", True, "alternatives", lambda a, r: right_share(a.alternatives),
            lambda a, r: right_share(r.alternatives) - right_share(a.alternatives), saturates=True,
        ),
        PromptMetric(
            "accuracy", "Right alternative is the most likely", "[right is most likely]; loss = reference - arm", "share of prompts", True,
            "alternatives", lambda a, r: right(a.alternatives), lambda a, r: right(r.alternatives) - right(a.alternatives), True, True,
        ),
        PromptMetric(
            "flips", "Choice between the alternatives changed, either way", "[argmax q != argmax p]", "share of prompts", False,
            "alternatives", lambda a, r: float(choice(a.alternatives) != choice(r.alternatives)),
            lambda a, r: float(choice(a.alternatives) != choice(r.alternatives)), True, True,
        ),
        PromptMetric(
            "shared_reply", "Share of the greedy reply before the first different token", "first difference / length; loss = 1 - that",
            "share of tokens", True, "reply", _shared, lambda a, r: 1 - _shared(a, r),
        ),
    )
}  # fmt: skip
