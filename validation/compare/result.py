"""A comparison as plain data: one row per arm and rate, with intervals, the ledger, the frontier and the claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tq_core.errors import ValueRangeError, check
from validation.compare.bits import LENGTHS, ledger
from validation.compare.claims import check_claims
from validation.compare.plan import Entry
from validation.compare.run import PROBED_DOCUMENTS, Comparison
from validation.stats import Interval, interval, paired

Result = dict[str, Any]
Row = dict[str, Any]
SCHEMA = {"name": "tq-compare", "version": 1}
VECTORS = ("key_mse", "value_mse", "slope", "score_variance", "logit_error", "tau", "same_top", "same_top_no_first", "output_error")  # fmt: skip


def _bounds(found: Interval) -> list[float] | None:
    return None if found.low is None or found.high is None else [found.low, found.high]


def make_row(c: Comparison, entry: Entry, seed: int = 0) -> Row:
    """An entry's figures over the documents. Figures of vectors are None for an arm that compresses nothing."""
    arm, rows = c.arms[entry], c.rows[entry]
    per_token = [np.asarray(r["kl"]) for r in rows]
    means = [float(k.mean()) for k in per_token]
    every = np.concatenate(per_token)
    kl, top = interval(per_token, seed=seed), [r["top1"] for r in rows]
    probed = [r["vectors"] for r in rows[:PROBED_DOCUMENTS] if r["vectors"] is not None]
    vectors = {v: float(np.mean([p[v] for p in probed])) if probed else None for v in VECTORS}
    mse = None if not probed else (float(vectors["key_mse"] or 0) + float(vectors["value_mse"] or 0)) / 2
    lengths = sorted({c.plan.tokens, *LENGTHS})
    return {
        "codec": entry.name,
        "label": entry.label,
        "options": dict(entry.options),
        "digest": arm.digest,
        **ledger(c.shape, arm, c.plan.flush_tokens, c.plan.tokens, lengths),
        "kl_mean": float(np.mean(means)),
        "kl_ci95": _bounds(kl),
        "kl_ci95_method": kl.method,
        "kl_ci95_covers": kl.covers,
        "kl_median": float(np.median(every)),
        "kl_p99": float(np.quantile(every, 0.99)),
        "kl_documents": means,
        "top1_agreement": float(np.mean(top)),
        "top1_documents": top,
        "perplexity_ratio": float(np.exp(np.mean([r["delta_nll"] for r in rows]))),
        "mse": mse,
        **vectors,
    }


def mark_frontier(rows: list[Row]) -> None:
    """Set ``pareto``: no other row has fewer or equal bits and a smaller KL, or fewer bits and an equal one."""
    for row in rows:
        here = row["bits_all_in"], row["kl_mean"]
        row["pareto"] = not any(
            o["bits_all_in"] <= here[0]
            and o["kl_mean"] <= here[1]
            and (o["bits_all_in"], o["kl_mean"]) != here
            for o in rows
        )


def make_result(
    c: Comparison, model: Any, command: str, run: dict[str, Any], with_claims: bool = True
) -> Result:
    """The whole comparison, JSON-able; rows are sorted by bits, then by KL."""
    entries = [e for e in c.arms if e in c.rows]
    check(bool(entries), "arms", "at least one that this model can have", "none", ValueRangeError)
    rows = sorted((make_row(c, e) for e in entries), key=lambda r: (r["bits_all_in"], r["kl_mean"]))
    mark_frontier(rows)
    claims = [x.as_dict() for x in check_claims(rows, command)] if with_claims else []
    return {
        "schema": SCHEMA,
        "model": {"name": model.name, "sha256": model.digest, "shape": vars(model.shape)},
        "plan": c.plan.describe(),
        "documents": [d.describe() for d in c.documents],
        "calibration": [d.describe() for d in c.calibration],
        "rows": rows,
        "not_measured": [
            {"codec": e.name, "label": e.label, "reason": reason} for e, reason in c.failures.items()
        ],
        "claims": claims,
        "run": run,
    }


def row_of(result: Result, label: str) -> Row:
    """The row with this label. Raises ValueRangeError when there is none."""
    found = {r["label"]: r for r in result["rows"]}
    check(label in found, "label", f"one of {', '.join(found)}", repr(label), ValueRangeError)
    return dict(found[label])


def paired_kl(result: Result, first: str, second: str, seed: int = 0) -> Interval:
    """Interval of KL(first) - KL(second), document by document; bounds are None for too few documents."""
    from validation.stats import document_interval

    a, b = (row_of(result, label)["kl_documents"] for label in (first, second))
    return document_interval(paired(a, b), seed=seed)


def table_rows(result: Result) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for a text table; "*" marks the frontier."""
    length = str(result["plan"]["tokens"])

    def number(x: Any, form: str = ".3g") -> str:
        return "-" if x is None else format(x, form)

    columns = ["arm", "bits", f"bits at {length}", "KL", "95 %", "top 1", "key MSE", "value MSE", "slope", "tau", "output"]  # fmt: skip
    rows = []
    for r in result["rows"]:
        ci = r["kl_ci95"]
        rows.append(
            [
                ("* " if r["pareto"] else "  ") + r["label"],
                f"{r['bits_all_in']:.3f}",
                f"{r['bits_at_length'][length]:.2f}",
                f"{r['kl_mean']:.4g}",
                "-" if ci is None else f"{ci[0]:.3g}..{ci[1]:.3g}",
                f"{r['top1_agreement']:.1%}",
                number(r["key_mse"]),
                number(r["value_mse"]),
                number(r["slope"], ".3f"),
                number(r["tau"], ".3f"),
                number(r["output_error"]),
            ]
        )
    return columns, rows


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text, the first column to the left."""
    widths = [max(len(x) for x in column) for column in zip(columns, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first, *rest = (
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join([first, *rest]).rstrip()

    return "\n".join(line(cells) for cells in (columns, *rows))
