"""What of a report is compared value by value, each with the direction in which it is better and what can judge a change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

Key = tuple[str, ...]


@dataclass(frozen=True)
class Value:
    """One number of a report.

    low, high: its interval, None without one. status: of a decision. tolerance: the study's budget for it, None without one.
    exact: counted, so that any change is one. higher_is_better: None where that is not known. control: of an arm that is
    there to fail or to do nothing, where a change is neither better nor worse.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    status: str | None = None
    tolerance: float | None = None
    unit: str = ""
    exact: bool = False
    higher_is_better: bool | None = None
    control: bool = False


def unique(keys: list[Key]) -> list[Key]:
    """Keys with a number behind those that come again, so that no row hides another."""
    seen: Counter[Key] = Counter()
    out = []
    for key in keys:
        seen[key] += 1
        out.append(key if seen[key] == 1 else (*key, str(seen[key])))
    return out


def directions(report: dict[str, Any]) -> dict[str, bool]:
    """Metric to whether higher is better: of this version, and as the report itself says."""
    from validation.metrics import METRICS
    from validation.prompt_metrics import PROMPT_METRICS

    told = {name: m.higher_is_better for known in (METRICS, PROMPT_METRICS) for name, m in known.items()}
    return told | {m["name"]: m["higher_is_better"] for m in report["quality"]["metrics"]}


def values(report: dict[str, Any]) -> dict[Key, Value]:
    """Every compared number by (kind, where, metric, arm), the decisions first."""
    better = directions(report)
    controls = {c["control"] for c in report["controls"]}
    budgets = {
        (b["workload"], b["metric"]): b["budget"] for b in (report["study"] or {"budgets": []})["budgets"]
    }
    found: list[tuple[Key, Value]] = []

    def metric(kind: str, where: str, arm: str, m: dict[str, Any]) -> None:
        name, ends = m["metric"], m["interval"] or {"low": None, "high": None}
        told: dict[str, Any] = {"tolerance": budgets.get((where, name)), "higher_is_better": better.get(name)}
        row = Value(m["value"], ends["low"], ends["high"], control=arm in controls, **told)
        found.append(((kind, where, name, arm), row))

    for d in report["decisions"]:
        told = {"status": d["status"], "unit": d["unit"], "control": d["arm"] in controls}
        row = Value(d["loss"], d["loss"], d["bound"], tolerance=d["budget"], higher_is_better=False, **told)
        found.append((("decision", d["workload"], d["metric"], d["arm"]), row))
    for w in report["workloads"]:
        for a in w["arms"]:
            for m in a["metrics"]:
                metric("workload", w["name"], a["arm"], m)
    for arm, metrics in report["quality"]["arms"].items():
        for m in metrics:
            metric("all texts", "all texts", arm, m)
    for a in report["memory"]["arms"]:
        for what, unit in (("total", "bytes"), ("bits_all_in", "bits per channel")):
            key = ("memory", f"{report['memory']['tokens']} tokens", what, a["arm"])
            found.append((key, Value(a[what], unit=unit, exact=True, higher_is_better=False)))
    return dict(zip(unique([k for k, _ in found]), (v for _, v in found)))
