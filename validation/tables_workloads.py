"""Per workload: what it shows, whether it can tell anything here, every metric of every arm, and samples to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tq_core.errors import TqError
from tq_core.model.interface import LanguageModel
from validation import stats
from validation.engine.cell import REFERENCE, SOURCE
from validation.findings import Findings, WorkloadFindings
from validation.information import information_of
from validation.prompt_metrics import PROMPT_METRICS, choice, first_difference
from validation.workloads.catalogue import get
from validation.workloads.workload import digest_of

LEVEL = 0.95


def workload_rows(f: Findings) -> list[dict[str, Any]]:
    """One entry per workload of the run."""
    return [_workload(f, w) for w in f.workloads.values()]


def _workload(f: Findings, w: WorkloadFindings) -> dict[str, Any]:
    about = get(w.name)
    scored = sum(len(r.scores) for r in w.readings.get(REFERENCE, []))
    # In the plan's order: readings come in whatever order they were ready.
    labels = [n for n in (REFERENCE, *f.arms, *f.controls) if n in w.readings and n != SOURCE]
    return {
        "name": w.name,
        "version": about.version,
        "title": about.title,
        "digest": digest_of(w.prompts),
        "prompts": len(w.prompts),
        "tokens_scored": scored,
        "shows": about.shows,
        "cannot_show": about.cannot_show,
        "information": information_of(w).as_dict(),
        "arms": [
            {"arm": n, "prompts": len(w.readings[n]), "metrics": _metrics(w, n, f.plan.seed)} for n in labels
        ],
    }


def _metrics(w: WorkloadFindings, label: str, seed: int) -> list[dict[str, Any]]:
    rows = []
    for metric in PROMPT_METRICS.values():
        pairs = [(a, r) for a, r in w.pairs(label) if metric.applies(a) and metric.applies(r)]
        if not pairs:
            continue
        values = np.array([metric.value(a, r) for a, r in pairs], np.float64)
        finite = bool(np.isfinite(values).all())
        interval = stats.document_interval(values, LEVEL, seed).as_dict()
        rows.append(
            {"metric": metric.name, "value": float(values.mean()) if finite else None, "interval": interval}
        )
    return rows


def samples(f: Findings, model: LanguageModel) -> list[dict[str, Any]]:
    """One line per (prompt, arm), to be read by a person: what it chose and what it said, nothing left out or repaired."""
    out = []
    for w in f.workloads.values():
        for label in (n for n in (REFERENCE, *f.arms, *f.controls) if n in w.readings):
            for prompt, arm, reference in zip(w.prompts, w.readings[label], w.readings[REFERENCE]):
                chosen = len(arm.alternatives) >= 2
                at = first_difference(arm.generated or [], reference.generated or [])
                out.append(
                    {
                        "prompt": prompt.name,
                        "workload": w.name,
                        "arm": label,
                        "digest": prompt.digest,
                        "tokens": len(prompt.tokens),
                        "kl_mean": float(arm.scores.kl.mean()),
                        "top1": float(arm.scores.same_top.mean()),
                        "alternatives": arm.alternatives.tolist(),
                        "choice": choice(arm.alternatives) if chosen else None,
                        "choice_reference": choice(reference.alternatives) if chosen else None,
                        "reply": words(model, arm.generated),
                        "reply_reference": words(model, reference.generated),
                        "first_difference": at if arm.generated is not None else None,
                        "facts": dict(prompt.facts),
                    }
                )
    return out


def words(model: LanguageModel, ids: Sequence[int] | None) -> str | None:
    """A reply as text; ids that are no text are told as such."""
    if ids is None:
        return None
    try:
        return model.detokenize(list(ids))
    except (TqError, UnicodeError) as error:
        return f"[{error}]"
