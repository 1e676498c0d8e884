"""Figures of the report: SVG without a clock or random ids, each with alternative text and its data as a table."""

from __future__ import annotations

from typing import Any

from validation.figures.memory import memory
from validation.figures.plate import COLOURS, HATCHES, LINES, MARKERS, Figure, look, render
from validation.figures.quality import attention, kl_documents, kl_quantiles
from validation.figures.study import KL, decisions, survival, workload_kl

__all__ = ["COLOURS", "HATCHES", "LINES", "MARKERS", "Figure", "all_figures", "look", "render"]


def all_figures(record: dict[str, Any]) -> list[Figure]:
    """The figures of a record (its ``as_dict``) in the report's order; one whose part of the record is empty is left out."""
    quality = record["quality"]
    found = [memory(record)]
    if quality["kl_quantiles"]["arms"]:
        found.append(kl_quantiles(record))
    if quality["documents"]:
        found.append(kl_documents(record))
    if record["attention"]["arms"]:
        found.append(attention(record))
    if any(d["loss"] is not None and d["budget"] for d in record["decisions"]):
        found.append(decisions(record))
    if any(m["metric"] == KL for w in record["workloads"] for a in w["arms"] for m in a["metrics"]):
        found.append(workload_kl(record))
    names = dict.fromkeys(t["workload"] for t in record["trajectories"] if t["survival"])
    return [*found, *(survival(record, name) for name in names)]
