"""From findings to the plain tables of the record."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from validation import stats
from validation.controls import CONTROLS
from validation.engine.cell import SOURCE as EXACT
from validation.findings import ArmFindings, Findings
from validation.logit_scores import TokenScores
from validation.metrics import METRICS, metrics_of

LEVEL = 0.95
CONTRASTS = ("kl_mean", "top1_agreement")


def number(value: float | None) -> float | None:
    """A finite float, else None: JSON has no NaN."""
    return float(value) if value is not None and math.isfinite(value) else None


def _rows(arm: ArmFindings, metric: str) -> list[np.ndarray]:
    column = METRICS[metric].column
    assert column is not None, f"{metric} is no mean over tokens"
    return [np.asarray(getattr(d, column), np.float64) for d in arm.documents]


def _values(arm: ArmFindings, seed: int) -> list[dict[str, Any]]:
    scores, beyond = arm.scores, _beyond_window(arm)
    out = []
    for metric in metrics_of("next token"):
        row: dict[str, Any] = {"metric": metric.name, "value": number(metric.of(scores))}
        row["beyond_window"] = number(metric.of(beyond)) if len(beyond) else None
        row["interval"] = (
            stats.interval(_rows(arm, metric.name), LEVEL, seed).as_dict() if metric.column else None
        )
        out.append(row)
    return out


def _beyond_window(arm: ArmFindings) -> TokenScores:
    """Scores of the tokens whose logits compression changed."""
    scores = arm.scores
    return scores.select(scores.max_difference > 0)


def _contrast(a: ArmFindings, b: ArmFindings, metric: str, seed: int) -> dict[str, Any]:
    """Paired difference a - b: document by document, or token by token within them when there are few."""
    rows = [stats.paired(list(x), list(y)) for x, y in zip(_rows(a, metric), _rows(b, metric), strict=True)]
    means = [float(r.mean()) for r in rows]
    better = sum(m > 0 if METRICS[metric].higher_is_better else m < 0 for m in means)
    return {
        "metric": metric,
        "arm": a.name,
        "other": b.name,
        "difference": float(np.mean(means)),
        "interval": stats.interval(rows, LEVEL, seed).as_dict(),
        "documents_better": int(better),
        "documents": len(means),
    }


def quality(f: Findings) -> dict[str, Any]:
    """Metric definitions, values of every arm against the reference, per document, and arm against arm."""
    others = [a for n, a in f.arms.items() if n != f.tested.name]
    documents = []
    for index, document in enumerate(f.documents):
        row: dict[str, Any] = {
            "document": document.name,
            "style": document.style,
            "tokens_scored": len(f.tested.documents[index]),
        }
        row["arms"] = {
            n: {m: METRICS[m].of(a.documents[index]) for m in CONTRASTS} for n, a in f.arms.items()
        }
        documents.append(row)
    return {
        "reference": f.reference.name,
        "tokens_scored": sum(map(len, f.tested.documents)),
        "metrics": [m.describe() for m in metrics_of("next token")],
        "arms": {n: _values(a, f.plan.seed) for n, a in f.arms.items()},
        "documents": documents,
        "contrasts": [_contrast(f.tested, o, m, f.plan.seed) for o in others for m in CONTRASTS],
        "retrieval": _retrieval(f),
        "kl_quantiles": kl_quantiles(f),
    }


def _retrieval(f: Findings) -> list[dict[str, Any]] | None:
    if not f.reference.answers:
        return None
    rows = []
    for arm in (f.reference, *f.arms.values(), f.planted_bad):
        if arm.answers:
            right = np.concatenate(arm.answers)
            rows.append({"cache": arm.name, "answers": len(right), "accuracy": float(right.mean())})
    return rows


def kl_quantiles(f: Findings) -> dict[str, Any]:
    """KL at fixed shares of the scored tokens, for the figure and its table."""
    shares = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0]
    return {
        "shares": shares,
        "arms": {n: [float(v) for v in np.quantile(a.scores.kl, shares)] for n, a in f.arms.items()},
    }


def effect(f: Findings) -> list[dict[str, Any]]:
    """Proof of effect per arm: tokens packed, bytes stored by stream, output changed, nothing decoded kept."""
    out = []
    for arm in f.arms.values():
        scores, ledger = arm.scores, arm.ledger
        changed = scores.max_difference > 0
        out.append(
            {
                "arm": arm.name,
                "tokens": ledger["n_tokens"],
                "tokens_compressed": ledger["tokens_compressed"],
                "tokens_recent": ledger["tokens_recent"],
                "tokens_sink": ledger["tokens_sink"],
                "stream_bytes": dict(ledger["payload"]),
                "tokens_scored": len(scores),
                "tokens_changed": int(changed.sum()),
                "first_changed": int(np.flatnonzero(arm.documents[0].max_difference > 0)[0])
                if changed.any()
                else None,
                "largest_logit_difference": float(scores.max_difference.max()),
                "decoded_shadow": ledger["decoded_shadow"],
                "bytes_found": arm.held,
                "bytes_not_in_ledger": arm.unaccounted,
            }
        )
    return out


def memory(f: Findings) -> dict[str, Any]:
    """The ledger of each arm at its longest document, in bytes, and what the same tokens take elsewhere."""
    single = ("headers", "padding", "idle", "recent", "sinks", "block_tables", "scratch", "fixed_tables")
    rows = []
    for arm in (f.reference, *f.arms.values()):
        ledger = arm.ledger
        rows.append(
            {
                "arm": arm.name,
                "entries": {
                    **{f"payload: {k}": v for k, v in ledger["payload"].items()},
                    **{k: ledger[k] for k in single},
                },
                "total": ledger["total"],
                "bits_nominal": ledger["bits_per_channel_nominal"],
                "bits_all_in": ledger["bits_per_channel_all_in"],
                "bits_now": ledger["bits_per_channel_now"],
            }
        )
    names = list(dict.fromkeys(name for row in rows for name in row["entries"]))
    return {
        "tokens": f.reference.ledger["n_tokens"],
        "entries": sorted(names, key=lambda name: not name.startswith("payload: ")),
        "arms": rows,
        "baselines": dict(f.reference.ledger["baselines"]),
    }


def attention(f: Findings) -> dict[str, Any]:
    """Agreement with exact attention on the same queries, keys and values, per arm and probed layer."""
    metrics = metrics_of("attention")
    arms = {
        name: [
            {
                "layer": layer,
                "rankings": len(s.same_top),
                "undefined": s.undefined,
                "values": {m.name: number(m.of(s)) for m in metrics},
            }
            for layer, s in arm.attention.items()
        ]
        for name, arm in f.arms.items()
    }
    return {"metrics": [m.describe() for m in metrics], "layers": f.attention_layers, "arms": arms}


def controls(f: Findings) -> list[dict[str, Any]]:
    """What every control gave on its prompts: KL, agreement and largest logit difference, with the number of tokens."""
    out = []
    for label, (control, arm) in f.controls.items():
        documents = f.exact if control == "source" else arm.documents
        if documents:
            s = TokenScores.join(documents)
            values = {m: number(METRICS[m].of(s)) for m in ("kl_mean", "kl_max", "top1_agreement")}
            name = f"fp16 against {EXACT}" if control == "source" else label
            row = {"control": name, "meaning": CONTROLS[control], "tokens_scored": len(s), **values}
            out.append({**row, "largest_logit_difference": float(s.max_difference.max()), "cache": arm.kind})
    return out


def measurements(f: Findings, peak_bytes: int | None) -> list[dict[str, Any]]:
    """Time of the forward passes per arm, and peak memory of the process. They gate nothing."""
    tokens = sum(len(d.tokens) for d in f.documents)
    rows: list[dict[str, Any]] = [
        {
            "what": f"forward passes, {a.name}",
            "value": tokens / a.seconds if a.seconds else None,
            "unit": "tokens/s",
        }
        for a in (f.reference, *f.arms.values())
    ]
    return [
        *rows,
        {
            "what": "peak resident memory of the process, all arms together",
            "value": peak_bytes,
            "unit": "bytes",
        },
    ]
