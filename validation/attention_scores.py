"""How far an arm's attention is from exact attention, for the same queries, keys and values."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tq_core.errors import ShapeError, ValueRangeError, check

TOP_KEYS = 32
KEPT_KEYS = 8  # whose overlap is counted


@dataclass(frozen=True)
class AttentionScores:
    """Rankings have one row per (query position, head), outputs one row per (token, head)."""

    tau: np.ndarray  # Kendall tau-b over the reference's top keys; constant rows are dropped
    spearman: np.ndarray
    same_top: np.ndarray  # bool: the most attended position is the same
    same_top_no_sink: np.ndarray  # bool: the same without position 0
    overlap: (
        np.ndarray
    )  # share of the reference's KEPT_KEYS most attended positions that the arm has among its own
    divergence: np.ndarray  # nats: sum_j p_j (ln p_j - ln q_j) of the attention distributions, P = reference
    logit_error: np.ndarray  # centred, weighted by the reference's softmax
    output_error: np.ndarray  # ||o - o_hat|| / ||o||
    output_cosine: np.ndarray
    undefined: int = 0  # rankings that were dropped because one side was constant

    @classmethod
    def join(cls, parts: list[AttentionScores]) -> AttentionScores:
        """Rows of all parts. Raises ValueRangeError when there is none."""
        check(len(parts) > 0, "parts", "at least one", 0, ValueRangeError)
        joined: dict[str, Any] = {
            f.name: np.concatenate([getattr(p, f.name) for p in parts])
            for f in fields(cls)
            if f.name != "undefined"
        }
        return cls(**joined, undefined=sum(p.undefined for p in parts))


def exact_scores(query: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """float64 (n_query_heads, n_tokens): q k / sqrt(head_dim) of one token's query (n_query_heads, head_dim)."""
    n_heads, head_dim = query.shape
    spread = np.repeat(keys, n_heads // keys.shape[1], axis=1).astype(np.float64)
    return np.einsum("hd,thd->ht", query.astype(np.float64), spread) / np.sqrt(head_dim)


def centred_error(reference: np.ndarray, scores: np.ndarray) -> float:
    """sqrt(sum_j w_j (d_j - sum w d)^2) of one row; a shift of all logits is harmless and costs nothing."""
    weights = np.exp(reference - reference.max())
    weights /= weights.sum()
    difference = scores - reference
    return float(np.sqrt(weights @ (difference - weights @ difference) ** 2))


def attention_divergence(reference: np.ndarray, scores: np.ndarray) -> float:
    """KL of one row's attention distribution from the reference's, nats: softmax of the logits on both sides."""
    log_p, log_q = (x - x.max() - np.log(np.exp(x - x.max()).sum()) for x in (reference, scores))
    return float(np.exp(log_p) @ (log_p - log_q))


def key_overlap(reference: np.ndarray, scores: np.ndarray) -> float:
    """Share of the KEPT_KEYS largest that both rows have, the lower position first among equals."""
    kept = min(KEPT_KEYS, len(reference))
    first, second = (set(np.argsort(-x, kind="stable")[:kept].tolist()) for x in (reference, scores))
    return len(first & second) / kept


def rank_agreement(reference: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """(tau-b, Spearman) of one row over the reference's TOP_KEYS largest; NaN when a side is constant."""
    from scipy import stats

    top = np.argsort(-reference, kind="stable")[:TOP_KEYS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        tau = stats.kendalltau(reference[top], scores[top]).statistic
        rho = stats.spearmanr(reference[top], scores[top]).statistic
    return float(tau), float(rho)


def score_rankings(
    pairs: list[tuple[np.ndarray, np.ndarray]], outputs: tuple[np.ndarray, np.ndarray]
) -> AttentionScores:
    """Scores of (reference, arm) logit matrices (n_query_heads, n_tokens >= 2) and of attention outputs.

    ``outputs`` are the reference's and the arm's, (n_tokens, n_query_heads, head_dim). Raises ShapeError
    when two sides differ in shape.
    """
    rows: list[tuple[float, ...]] = []
    for reference, scores in pairs:
        check(reference.shape == scores.shape, "scores", f"shape {reference.shape}", scores.shape, ShapeError)
        for a, b in zip(reference, scores.astype(np.float64), strict=True):
            same, same_later = a.argmax() == b.argmax(), a[1:].argmax() == b[1:].argmax()
            spread = key_overlap(a, b), attention_divergence(a, b), centred_error(a, b)
            rows.append((*rank_agreement(a, b), float(same), float(same_later), *spread))
    table = np.array(rows, np.float64).reshape(-1, 7)
    defined = np.isfinite(table[:, :2]).all(axis=1)
    exact, got = (o.astype(np.float64) for o in outputs)
    check(exact.shape == got.shape, "outputs", f"shape {exact.shape}", got.shape, ShapeError)
    norm, norm_got = (np.linalg.norm(o, axis=-1).reshape(-1) for o in (exact, got))
    used = (norm > 0) & (norm_got > 0)
    error = np.linalg.norm(exact - got, axis=-1).reshape(-1)[used] / norm[used]
    cosine = (exact * got).sum(axis=-1).reshape(-1)[used] / (norm * norm_got)[used]
    return AttentionScores(
        tau=table[defined, 0],
        spearman=table[defined, 1],
        same_top=table[:, 2] > 0,
        same_top_no_sink=table[:, 3] > 0,
        overlap=table[:, 4],
        divergence=table[:, 5],
        logit_error=table[:, 6],
        output_error=error,
        output_cosine=cosine,
        undefined=int((~defined).sum()),
    )
