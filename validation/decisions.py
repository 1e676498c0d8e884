"""Every budget of a study held against the losses of the arm under test, prompt by prompt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation import stats
from validation.findings import Findings, WorkloadFindings
from validation.information import Information, information_of
from validation.prompt_metrics import PROMPT_METRICS, PromptMetric
from validation.study import Budget


@dataclass(frozen=True)
class Decision:
    """status: pass, fail, or not exercised. loss, bound: mean over prompts and its one-sided upper bound, ``unit`` of the metric."""

    budget: Budget
    arm: str
    n: int
    least_n: int
    loss: float | None
    bound: float | None
    status: str
    method: str
    power: float | None
    note: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form, as the report has it."""
        metric = PROMPT_METRICS[self.budget.metric]
        return {
            "workload": self.budget.workload,
            "metric": self.budget.metric,
            "arm": self.arm,
            "n": self.n,
            "least_n": self.least_n,
            "loss": _finite(self.loss),
            "bound": _finite(self.bound),
            "budget": self.budget.limit,
            "unit": metric.unit,
            "status": self.status,
            "method": self.method,
            "power": _finite(self.power),
            "note": self.note,
        }


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def losses_of(workload: WorkloadFindings, label: str, metric: PromptMetric) -> np.ndarray:
    """float64 (n_prompts,): the arm's loss on every prompt on which the metric applies."""
    pairs = [(a, r) for a, r in workload.pairs(label) if metric.applies(a) and metric.applies(r)]
    return np.array([metric.loss(a, r) for a, r in pairs], np.float64)


def decide(f: Findings, budget: Budget, told: Information | None = None) -> Decision:
    """The verdict on one budget. Fewer prompts than the study's least, or a workload without information: not exercised."""
    workload, metric = f.workloads[budget.workload], PROMPT_METRICS[budget.metric]
    losses = losses_of(workload, f.plan.arm, metric)
    told = told or information_of(workload)
    least = f.plan.study.least_prompts

    def undecided(note: str) -> Decision:
        loss = float(losses.mean()) if len(losses) else None
        return Decision(
            budget, f.plan.arm, len(losses), least, loss, None, "not exercised", "none", None, note
        )

    if not len(losses):
        return undecided("no prompt has what this metric needs")
    if not told.tells(metric):
        return undecided(told.evidence)
    found = stats.judge(
        losses, budget.limit, confidence=f.plan.study.confidence, seed=f.plan.seed, least_n=least
    )
    status = "not exercised" if found.passes is None else "pass" if found.passes else "fail"
    bound, note = found.bound, found.note
    if status == "not exercised" and found.loss is not None and found.loss > budget.limit:
        # More prompts are needed to pass; nothing that was seen speaks for it.
        status, bound, note = "fail", found.loss, f"{note}; the mean itself exceeds the budget"
    return Decision(
        budget, f.plan.arm, found.n, found.least_n, found.loss, bound, status, found.method, found.power, note
    )


def decisions(f: Findings) -> list[Decision]:
    """One per budget of the study, in its order."""
    told = {name: information_of(w) for name, w in f.workloads.items()}
    return [decide(f, b, told[b.workload]) for b in f.plan.study.budgets if b.workload in f.workloads]
