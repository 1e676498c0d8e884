"""A sweep as plain data: one row per point, workload and metric, with intervals, bits, and what could not be read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tq_core.errors import check
from validation import stats
from validation.compare.bits import bits_all_in, side_bits
from validation.engine.cell import REFERENCE
from validation.engine.reading import Reading
from validation.prompt_metrics import PROMPT_METRICS, PromptMetric
from validation.schema import canonical
from validation.study import WorkloadUse
from validation.sweep.file import Sweep, SweepError
from validation.sweep.points import Point
from validation.sweep.run import ModelRun, Swept
from validation.workloads.catalogue import get
from validation.workloads.workload import digest_of

Result = dict[str, Any]
SCHEMA = {"name": "tq-sweep", "version": 1}
# Left out of the digest: they change from run to run while the findings stay.
VOLATILE = ("run", "figures", "result_digest")


def metric_row(
    metric: PromptMetric, pairs: Sequence[tuple[Reading, Reading]], sweep: Sweep
) -> dict[str, Any]:
    """value and loss are means over the prompts that have what the metric needs; the interval is the mean loss's."""
    fit = [(arm, ref) for arm, ref in pairs if metric.applies(arm) and metric.applies(ref)]
    row: dict[str, Any] = {"metric": metric.name, "unit": metric.unit, "n": len(fit), "value": None, "loss": None, "low": None, "high": None}  # fmt: skip
    if not fit:
        return {**row, "method": "none", "note": f"no prompt has the {metric.needs} that it needs"}
    values = np.array([metric.value(a, r) for a, r in fit], np.float64)
    losses = np.array([metric.loss(a, r) for a, r in fit], np.float64)
    found = stats.document_interval(losses, sweep.confidence, sweep.resampling_seed)
    if np.isfinite(values).all() and np.isfinite(losses).all():
        row |= {"value": float(values.mean()), "loss": float(losses.mean())}
    return {**row, "low": found.low, "high": found.high, "method": found.method, "note": found.note}


def _memory(arm: Sequence[Reading], reference: Sequence[Reading]) -> dict[str, Any]:
    """What the caches held when the prompts had been read, window and headers included; None for simulated ones."""
    held = [(a.held, r.held) for a, r in zip(arm, reference, strict=True)]
    if not held or any(a is None or r is None for a, r in held):
        return {"bits_held": None, "share_of_fp16": None}
    bits = [a.ledger["bits_per_channel_all_in"] for a, _ in held if a]
    ours, theirs = (sum(side.ledger["total"] for side in sides if side) for sides in zip(*held, strict=True))
    return {"bits_held": float(np.mean(bits)), "share_of_fp16": ours / theirs}


def _rows(s: Swept, run: ModelRun, use: WorkloadUse) -> list[dict[str, Any]]:
    readings, rows = run.readings[use], []
    for point, arm in run.arms.items():
        pairs = list(zip(readings[run.labels[point]], readings[REFERENCE], strict=True))
        keys, values = side_bits(run.model.shape, arm)
        rows.append(
            {
                "model": run.name,
                "workload": use.name,
                "tokens": use.tokens,
                **point.describe(),
                "digest": arm.digest,
                "bits_all_in": bits_all_in(run.model.shape, arm),
                "bits_keys": keys,
                "bits_values": values,
                **_memory(*zip(*pairs, strict=True)),
                "metrics": [metric_row(PROMPT_METRICS[m], pairs, s.sweep) for m in s.sweep.metrics],
            }
        )
    return rows


def _workload(run: ModelRun, use: WorkloadUse) -> dict[str, Any]:
    about, prompts = get(use.name), run.prompts[use]
    scored = sum(len(r.scores) for r in run.readings[use][REFERENCE])
    return {
        "model": run.name,
        "name": use.name,
        "tokens": use.tokens,
        "version": about.version,
        "title": about.title,
        "digest": digest_of(prompts),
        "prompts": len(prompts),
        "tokens_scored": scored,
        "shows": about.shows,
        "cannot_show": about.cannot_show,
    }


def _shared(run: ModelRun) -> list[list[str]]:
    """Labels of points that have the same readings, where there are several."""
    found: dict[str, list[Point]] = {}
    for point, label in run.labels.items():
        found.setdefault(label, []).append(point)
    return [[p.label for p in points] for points in found.values() if len(points) > 1]


def make_result(s: Swept, run_facts: dict[str, Any]) -> Result:
    """The whole sweep, JSON-able, in the order of the file. Raises SweepError when not one point could be read.

    status: "incomplete" where something would be read on another machine, or could not be kept.
    """
    rows = [row for m in s.models for use in m.readings for row in _rows(s, m, use)]
    missing = [r.describe() for r in s.refused]
    why = "; ".join(dict.fromkeys(r.reason for r in s.refused))
    unavailable = any(not r.available for r in s.refused)
    check(bool(rows) or unavailable, "sweep", "at least one point that can be read", why, SweepError)
    body: Result = {
        "status": "incomplete" if unavailable or s.unkept else "pass",
        "sweep": {**s.sweep.describe(), "sha256": s.sweep.sha256},
        "models": [
            {"name": m.name, "sha256": m.model.digest, "shape": dict(vars(m.model.shape)), "points": len(m.labels), "shared": _shared(m)}
            for m in s.models
        ],
        "workloads": [_workload(m, use) for m in s.models for use in m.readings],
        "metrics": [PROMPT_METRICS[m].describe() for m in s.sweep.metrics],
        "rows": rows,
        "not_measured": missing,
        "not_applied": s.expansion.not_applied,
        "unkept": s.unkept,
        "run": {**run_facts, "file": s.sweep.file, "computed": s.computed, "reused": s.reused},
    }  # fmt: skip
    return {"schema": SCHEMA, "result_digest": result_digest(body), **body}


def result_digest(body: Result) -> str:
    """SHA-256 over what a repeated run gives again, on this machine or on a cluster of the same kind.

    Whether rows could be kept is of the disk, not of the findings.
    """
    kept = {k: v for k, v in body.items() if k not in (*VOLATILE, "schema", "status", "unkept")}
    return hashlib.sha256(canonical({"schema": SCHEMA, **kept}).encode()).hexdigest()


def metric_of(row: dict[str, Any], name: str) -> dict[str, Any]:
    """One metric of a row."""
    found: dict[str, Any] = next(m for m in row["metrics"] if m["metric"] == name)
    return found
