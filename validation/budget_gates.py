"""The budgets of a study as gates: the upper bound of the loss must not exceed the limit."""

from __future__ import annotations

from functools import partial

from validation.decisions import Decision, decide
from validation.findings import Findings
from validation.gates import Gate, Measured
from validation.plan import KL, TOP1
from validation.prompt_metrics import PROMPT_METRICS
from validation.study import Budget

PRIMARY = (KL, TOP1)  # these two have gates of their own, see ``rules``


def measured(decision: Decision) -> Measured:
    """A decision as a gate sees it. A loss beyond the limit fails even where so few prompts could not have passed."""
    metric = PROMPT_METRICS[decision.budget.metric]
    said = f"{metric.title}, {decision.n} prompts"
    if decision.loss is not None:
        said += f": mean loss {decision.loss:.4g} {metric.unit}"
    if decision.bound is not None:
        said += f", upper bound {decision.bound:.4g} by {decision.method}"
    if decision.note:
        said += f"; {decision.note}"
    if decision.status == "not exercised":
        return Measured(None, said)
    if decision.bound is None:  # identical on every prompt, or not a number
        return Measured(decision.loss if decision.status == "pass" else float("nan"), said)
    return Measured(decision.bound, said)


def regression(f: Findings, metric: str) -> Measured:
    """Upper bound of the primary workload's loss in ``metric``."""
    return measured(decide(f, f.plan.study.budget(metric)))


def budget_gates(f: Findings) -> list[Gate[Findings]]:
    """A gate per budget of the study, but for the primary workload's KL and agreement."""
    primary = f.plan.study.primary.name
    return [
        _gate(b)
        for b in f.plan.study.budgets
        if b.workload in f.workloads and not (b.workload == primary and b.metric in PRIMARY)
    ]


def _gate(budget: Budget) -> Gate[Findings]:
    metric = PROMPT_METRICS[budget.metric]

    def measure(f: Findings, own: Budget) -> Measured:
        return measured(decide(f, own))

    claim = f"{budget.workload}: {metric.title.lower()}: no more is lost than the budget."
    name = f"{budget.workload}-{budget.metric.replace('_', '-')}"
    return Gate(name, claim, partial(measure, own=budget), "<=", budget.limit, metric.unit, budget.why)
