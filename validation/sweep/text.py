"""A sweep as text and as CSV; nothing is computed here."""

from __future__ import annotations

import csv
import io
from typing import Any

from tq_core.show.html import text_table
from validation.sweep.result import Result

COLUMNS = (
    "model", "workload", "tokens", "arm", "label", "key_bits", "value_bits", "window", "sinks", "seed", "bits_all_in",
    "bits_keys", "bits_values", "bits_held", "share_of_fp16", "metric", "unit", "n", "value", "loss", "low", "high",
    "method", "note",
)  # fmt: skip


def number(x: Any, form: str = ".4g") -> str:
    """A number for a table; None is a dash."""
    return "-" if x is None else format(x, form)


def span(metric: dict[str, Any]) -> str:
    """A metric's interval."""
    return "-" if metric["low"] is None else f"{metric['low']:.3g}..{metric['high']:.3g}"


def table(result: Result, model: str, workload: str, tokens: int) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of one model and workload, by bits: the loss of each metric with its interval."""
    rows = [
        r for r in result["rows"] if (r["model"], r["workload"], r["tokens"]) == (model, workload, tokens)
    ]
    level = f"{100 * result['sweep']['confidence']:g} %"
    columns = ["arm", "bits all-in"]
    for m in result["sweep"]["metrics"]:
        columns += [f"loss of {m}", level]
    lines = []
    for r in sorted(rows, key=lambda r: (r["bits_all_in"], r["label"])):
        cells = [r["label"], f"{r['bits_all_in']:.3f}"]
        for m in r["metrics"]:
            cells += [number(m["loss"]), span(m)]
        lines.append(cells)
    return columns, lines


def notes(result: Result) -> list[str]:
    """What is not in the tables, and why."""
    lines: list[str] = []
    told: dict[tuple[str, str, str], list[str]] = {}
    for r in result["not_measured"]:
        told.setdefault((r["model"], r["workload"], r["reason"]), []).append(r["label"])
    for (model, workload, reason), labels in told.items():
        where = "".join(f" on {x}" for x in (model, workload) if x)
        lines.append(f"not measured{where}: {'; '.join(labels)}: {reason}")
    for arm, axes in result["not_applied"].items():
        lines.append(f"not applied to {arm}: {', '.join(f'{k} ({why})' for k, why in axes.items())}")
    for m in result["models"]:
        lines += [f"read once on {m['name']}: {' = '.join(labels)}" for labels in m["shared"]]
    seen = {(m["metric"], m["note"]) for r in result["rows"] for m in r["metrics"] if m["note"]}
    lines += [f"{metric}: {note}" for metric, note in sorted(seen)]
    return lines


def as_text(result: Result) -> str:
    """Tables, what is not in them, and what it cost."""
    lines = [result["sweep"]["question"]]
    for w in result["workloads"]:
        head = f"{w['model']}, {w['name']} of {w['tokens']} tokens: {w['prompts']} prompts, {w['tokens_scored']} predictions scored"
        lines += ["", head, text_table(*table(result, w["model"], w["name"], w["tokens"]))]
    lines += ["", *notes(result)]
    run = result["run"]
    lines.append(f"{run['computed']} readings computed, {run['reused']} taken from before")
    if result["unkept"]:
        lines.append(f"NOT KEPT, a stopped run would start again: {result['unkept']}")
    lines.append(f"{result['status']}: {len(result['rows'])} rows, digest {result['result_digest'][:16]}")
    return "\n".join(lines)


def as_csv(result: Result) -> str:
    """One line per point, workload and metric; numbers with all their bits. Points without a reading have a note alone."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for r in result["rows"]:
        for m in r["metrics"]:
            writer.writerow({**r["options"], **r, **m})
    for r in result["not_measured"]:
        writer.writerow({**r["options"], **r, "note": f"not measured: {r['reason']}"})
    return out.getvalue()
