"""Claims of difference between the arm under test and those beside it: one small family, Holm-corrected."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation import stats
from validation.decisions import losses_of
from validation.findings import Findings
from validation.prompt_metrics import PROMPT_METRICS

LEVEL = 0.95


def comparisons(f: Findings) -> list[dict[str, Any]]:
    """Paired differences of losses, arm minus other (negative: the arm loses less), with p-values over the whole family.

    Registered comparisons alone: everything else that a reader may subtract is exploratory.
    """
    rows: list[dict[str, Any]] = []
    for wanted in f.plan.study.comparisons:
        workload, metric = f.workloads[wanted.workload], PROMPT_METRICS[wanted.metric]
        ours = losses_of(workload, f.plan.arm, metric)
        for other in f.plan.comparators:
            theirs = losses_of(workload, other, metric)
            n = min(len(ours), len(theirs))
            difference = ours[:n] - theirs[:n]
            row: dict[str, Any] = {
                "workload": wanted.workload,
                "metric": wanted.metric,
                "arm": f.plan.arm,
                "other": other,
                "n": n,
            }
            rows.append({**row, **_tested(difference, f.plan.seed)})
    adjusted = stats.holm([float("nan") if r["p"] is None else r["p"] for r in rows]) if rows else []
    for row, p in zip(rows, adjusted, strict=True):
        known = bool(np.isfinite(p))
        row["p_holm"] = float(p) if known else None
        row["rejected"] = known and p <= 1 - f.plan.study.confidence
    return rows


def _tested(difference: np.ndarray, seed: int) -> dict[str, Any]:
    if not len(difference):
        return {"difference": None, "interval": None, "p": None, "note": "no prompt was read by both"}
    interval = stats.document_interval(difference, LEVEL, seed)
    p = stats.permutation_p(difference, seed=seed)
    finite = bool(np.isfinite(p))
    return {
        "difference": float(difference.mean()) if np.isfinite(difference).all() else None,
        "interval": interval.as_dict(),
        "p": float(p) if finite else None,
        "note": interval.note,
    }
