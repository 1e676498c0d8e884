"""One arm on one document: next-token agreement by teacher forcing, and what happens to the captured vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tq_core.codecs.arm import Arm
from tq_core.model.interface import LanguageModel
from validation.compare.reference import ROWS, Captured, Tables
from validation.compare.vectors import vector_scores
from validation.simulate import SimulatedCache

# What a row depends on besides the arm and the model: a change of these files makes kept rows stale.
SOURCES = (
    "validation/attention_scores.py", "validation/compare/measure.py", "validation/compare/reference.py",
    "validation/compare/vectors.py",
)  # fmt: skip
_DIGITS = 6


def token_scores(tables: Tables, logits: np.ndarray) -> dict[str, np.ndarray]:
    """Per scored token: kl (nats, of the arm from the reference), same_top and nll, from logits (n_tokens, vocab_size).

    kl = sum_v p ln p - sum_v p ln q, both sums in float64 over the whole vocabulary.
    """
    kl, nll = np.empty(tables.n_scored), np.empty(tables.n_scored)
    for index, p in enumerate(tables.p):
        rows = slice(index * ROWS, index * ROWS + len(p))
        x = logits[rows].astype(np.float64)
        x -= x.max(axis=1, keepdims=True)
        cross = np.einsum("tv,tv->t", p, x)
        true = x[np.arange(len(x)), tables.targets[rows]]
        np.exp(x, out=x)
        total = np.log(x.sum(axis=1))
        kl[rows] = total - cross - tables.entropy[rows]
        nll[rows] = total - true
    return {"kl": kl, "same_top": logits[: tables.n_scored].argmax(axis=1) == tables.top, "nll": nll}


def measure(
    model: LanguageModel,
    arm: Arm,
    flush_tokens: int,
    tokens: np.ndarray,
    tables: Tables,
    captured: dict[int, Captured],
) -> dict[str, Any]:
    """The row of an arm on a document: JSON-able, per-token KL included; ``vectors`` is None without captured layers.

    Raises the cache's errors for an arm that cannot store the model's shape.
    """
    flush = arm.flush_tokens if arm.window is None else flush_tokens
    logits = model.forward(tokens, SimulatedCache(model.shape, arm, flush_tokens=flush))
    scores = token_scores(tables, logits)
    vectors = vector_scores(model.shape, arm, flush, captured) if captured else None
    return {
        "kl": [float(f"{x:.{_DIGITS}g}") for x in scores["kl"]],
        "top1": float(scores["same_top"].mean()),
        "delta_nll": float((scores["nll"] - tables.nll).mean()),
        "vectors": vectors,
    }
