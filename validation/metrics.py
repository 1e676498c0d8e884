"""What is measured: each metric with its formula, unit and direction.

Mean squared error, cosine and perplexity are shown and never decide: each has improved in published
cases while the model's output got worse. Definitions follow llama.cpp's ``--kl-divergence`` where it has
one, except that P keeps float32 logits and no vocabulary entry is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tq_core.errors import ValueRangeError, check
from validation.attention_scores import AttentionScores
from validation.logit_scores import TOP_K, TokenScores

CLEAR_MARGIN = 0.1


@dataclass(frozen=True)
class Metric:
    """``of`` reduces the scores of any number of tokens to one number; NaN where it is undefined.

    ``column`` names the entry of TokenScores whose mean over tokens the value is, if it is one: an interval
    over documents then makes sense. ``decides`` marks the metrics that gates use.
    """

    name: str
    title: str
    formula: str
    unit: str
    higher_is_better: bool
    level: Literal["next token", "attention"]
    of: Callable[..., float]
    column: str | None = None
    decides: bool = False

    def describe(self) -> dict[str, object]:
        """JSON-able form, without the function."""
        names = ("name", "title", "formula", "unit", "higher_is_better", "level", "decides")
        return {name: getattr(self, name) for name in names}


METRICS: dict[str, Metric] = {}


def _add(metric: Metric) -> None:
    check(metric.name not in METRICS, "metric", "a name that is not taken", metric.name, ValueRangeError)
    METRICS[metric.name] = metric


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _quantile(values: np.ndarray, q: float) -> float:
    return float(np.quantile(values, q)) if len(values) else float("nan")


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else float("nan")


def _delta_p(s: TokenScores) -> np.ndarray:
    return np.exp(-s.nll) - np.exp(-s.nll_reference)


def _token(
    name: str, title: str, formula: str, unit: str, up: bool, of: Callable[[TokenScores], float], **more: Any
) -> None:
    _add(Metric(name, title, formula, unit, up, "next token", of, **more))


def _attention(
    name: str, title: str, formula: str, unit: str, up: bool, of: Callable[[AttentionScores], float]
) -> None:
    _add(Metric(name, title, formula, unit, up, "attention", of))


_KL = "sum_v p_v (ln p_v - ln q_v), P = reference"
_token(
    "kl_mean",
    "Next-token KL, mean",
    f"mean_t {_KL}",
    "nats",
    False,
    lambda s: _mean(s.kl),
    column="kl",
    decides=True,
)


def _kl_quantile(name: str, q: float, word: str) -> None:
    title, formula = f"Next-token KL, {word}", f"{word} over t of {_KL}"
    _token(name, title, formula, "nats", False, lambda s: _quantile(s.kl, q))


_kl_quantile("kl_median", 0.5, "median")
_kl_quantile("kl_p90", 0.9, "90 %")
_kl_quantile("kl_p99", 0.99, "99 %")
_kl_quantile("kl_p999", 0.999, "99.9 %")
_kl_quantile("kl_max", 1.0, "largest")
_token(
    "top1_agreement",
    "Same top token",
    "mean_t [argmax p = argmax q]",
    "share",
    True,
    lambda s: _mean(s.same_top),
    column="same_top",
    decides=True,
)
_token(
    "top1_agreement_clear",
    f"Same top token where the reference is clear (margin >= {CLEAR_MARGIN})",
    "mean over t with p(1) - p(2) >= 0.1 of [argmax p = argmax q]",
    "share",
    True,
    lambda s: _mean(s.same_top[s.margin >= CLEAR_MARGIN]),
)
_token(
    "topk_overlap",
    f"Top-{TOP_K} overlap",
    f"mean_t |T{TOP_K}(p) & T{TOP_K}(q)| / {TOP_K}",
    "share",
    True,
    lambda s: _mean(s.overlap),
    column="overlap",
)
_token(
    "rms_delta_p",
    "RMS change of the true token's probability",
    "sqrt(mean_t (q(y_t) - p(y_t))^2)",
    "probability",
    False,
    lambda s: _rms(_delta_p(s)),
)


def _delta_p_quantile(name: str, q: float, word: str) -> None:
    title, formula = f"Change of the true token's probability, {word}", f"{word} over t of q(y_t) - p(y_t)"
    _token(name, title, formula, "probability", True, lambda s: _quantile(_delta_p(s), q))


_delta_p_quantile("delta_p_p1", 0.01, "1 %")
_delta_p_quantile("delta_p_median", 0.5, "median")
_delta_p_quantile("delta_p_p99", 0.99, "99 %")
_token(
    "flips",
    "Flips: right to wrong or wrong to right",
    "mean_t [(argmax p = y) != (argmax q = y)]",
    "share",
    False,
    lambda s: _mean(s.right != s.right_reference),
)
_token(
    "ppl_ratio",
    "Perplexity ratio",
    "exp(mean_t (NLL_q - NLL_p))",
    "ratio",
    False,
    lambda s: float(np.exp(_mean(s.nll - s.nll_reference))),
)

_attention(
    "key_tau",
    "Key ranking, Kendall tau-b over the reference's top 32 keys",
    "mean of tau_b(s, s_hat)",
    "tau",
    True,
    lambda a: _mean(a.tau),
)
_attention(
    "key_spearman",
    "Key ranking, Spearman over the reference's top 32 keys",
    "mean of rho(s, s_hat)",
    "rho",
    True,
    lambda a: _mean(a.spearman),
)
_attention(
    "top_key_agreement",
    "Same top-attended token",
    "mean [argmax s = argmax s_hat]",
    "share",
    True,
    lambda a: _mean(a.same_top),
)
_attention(
    "top_key_agreement_no_sink",
    "Same top-attended token, position 0 left out",
    "the same over positions 1..",
    "share",
    True,
    lambda a: _mean(a.same_top_no_sink),
)
_attention(
    "key_overlap",
    "Overlap of the 8 most attended tokens",
    "mean |T8(s) & T8(s_hat)| / 8",
    "share",
    True,
    lambda a: _mean(a.overlap),
)
_attention(
    "attention_kl",
    "Attention distribution, KL",
    "mean of sum_j p_j (ln p_j - ln q_j), P = softmax(s)",
    "nats",
    False,
    lambda a: _mean(a.divergence),
)
_attention(
    "key_logit_error",
    "Centred key-logit error",
    "sqrt(sum_j w_j (d_j - sum w d)^2), d = s_hat - s, w = softmax(s)",
    "nats",
    False,
    lambda a: _rms(a.logit_error),
)
_attention(
    "output_error",
    "Attention output, relative error, mean",
    "mean ||o - o_hat|| / ||o||",
    "ratio",
    False,
    lambda a: _mean(a.output_error),
)
_attention(
    "output_error_p99",
    "Attention output, relative error, 99 %",
    "99 % of ||o - o_hat|| / ||o||",
    "ratio",
    False,
    lambda a: _quantile(a.output_error, 0.99),
)
_attention(
    "output_cosine_p1",
    "Attention output, cosine, 1 %",
    "1 % of cos(o, o_hat)",
    "cosine",
    True,
    lambda a: _quantile(a.output_cosine, 0.01),
)


def metrics_of(level: str) -> list[Metric]:
    """The metrics of "next token" or "attention", in the order in which they are shown."""
    return [m for m in METRICS.values() if m.level == level]


def answers_right(right: np.ndarray, answers: Sequence[np.ndarray]) -> np.ndarray:
    """bool (n_answers,): is every token of the answer predicted right? ``answers`` index rows of ``right``.

    Raises ValueRangeError when there is no answer to score.
    """
    check(len(answers) > 0, "answers", "at least one", 0, ValueRangeError)
    return np.array([bool(right[rows].all()) for rows in answers])
