"""All figures of all heads, and their summary: plain data, None for what is not defined or not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tq_core.codecs.arms import get_arm
from tq_core.math.hadamard import paley_order
from tq_core.shapes import is_head_dim
from validation.diagnose.key_figures import key_figures
from validation.diagnose.query_figures import query_figures
from validation.diagnose.trial import ARMS, bits_of, can_store, try_layer
from validation.diagnose.vectors import Vectors

Progress = Callable[[str, int, int], None]


def _quiet(what: str, done: int, total: int) -> None:
    pass


def head_rows(vectors: Vectors, progress: Progress = _quiet) -> list[dict[str, Any]]:
    """One row of figures per layer and KV head."""
    rows = []
    n_layers, _, heads, _ = vectors.keys.shape
    tried = not can_store(vectors.keys, vectors.values)
    for layer in range(n_layers):
        k = vectors.keys[layer]
        v, q = (None if x is None else x[layer] for x in (vectors.values, vectors.queries))
        trial = try_layer(k, v, q, vectors.rotary[layer]) if tried else [{} for _ in range(heads)]
        for head in range(heads):
            keys = k[:, head].astype(np.float64)
            values = None if v is None else v[:, head].astype(np.float64)
            group = 0 if q is None else q.shape[1] // heads
            queries = None if q is None else q[:, head * group : (head + 1) * group].astype(np.float64)
            figures = key_figures(keys, values, vectors.rotary[layer])
            rows.append({"layer": layer, "head": head, **figures, **query_figures(keys, values, queries), **trial[head]})  # fmt: skip
        progress("layers", layer + 1, n_layers)
    return rows


def _flat(row: dict[str, Any]) -> dict[str, float | None]:
    """The numbers of a row: lists by their index, arms by their name."""
    out: dict[str, float | None] = {}
    for name, value in row.items():
        if name in ("layer", "head"):
            continue
        if name == "outlier_channels":
            out[name] = len(value)
        elif isinstance(value, list):
            out |= {f"{name}[{i}]": v for i, v in enumerate(value)}
        elif isinstance(value, dict):
            out |= {f"{name}[{k}]": v for k, v in value.items()}
        else:
            out[name] = value
    return out


def summarise(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """figure -> median, least, most, root mean square over the heads that have it, and where the most is."""
    flat = [_flat(row) for row in rows]
    out: dict[str, dict[str, Any]] = {}
    for name in flat[0]:
        found = [(f[name], row) for f, row in zip(flat, rows, strict=True) if f.get(name) is not None]
        if not found:
            continue
        numbers = np.array([v for v, _ in found], np.float64)
        top = found[int(numbers.argmax())][1]
        out[name] = {
            "median": float(np.median(numbers)),
            "least": float(numbers.min()),
            "most": float(numbers.max()),
            "rms": float(np.sqrt((numbers**2).mean())),
            "most_at": {"layer": top["layer"], "head": top["head"]},
            "heads": len(found),
        }
    return out


def head_size(head_dim: int) -> dict[str, Any]:
    """How the rotation reaches this head_dim, and what padding to a power of two would cost instead."""
    padded = 1 << (head_dim - 1).bit_length()
    order = paley_order(head_dim) if is_head_dim(head_dim) else None
    return {
        "head_dim": head_dim,
        "supported": is_head_dim(head_dim),
        "power_of_two": padded == head_dim,
        "paley_order": order,
        "padded_dim": padded,
        "padding_cost": padded / head_dim - 1,
        "next_supported": next((d for d in range(head_dim, 577) if is_head_dim(d)), None),
    }


def diagnosis(vectors: Vectors, progress: Progress = _quiet) -> dict[str, Any]:
    """Figures per head, their summary, and what they were made from."""
    n_layers, n_tokens, heads, head_dim = vectors.keys.shape
    rows = head_rows(vectors, progress)
    obstacle = can_store(vectors.keys, vectors.values)
    trial_bits = {} if obstacle else {n: bits_of(get_arm(**o).key_codec, head_dim) for n, o in ARMS.items()}
    return {
        "source": {
            "name": vectors.source,
            "text": vectors.text,
            "sha256": vectors.digest,
            "n_layers": n_layers,
            "n_tokens": n_tokens,
            "n_kv_heads": heads,
            "n_query_heads": None if vectors.queries is None else vectors.queries.shape[2],
            "has_values": vectors.values is not None,
            "rotary_known": all(r is not None for r in vectors.rotary),
        },
        "head_size": head_size(head_dim),
        "trial": {
            "bits_all_in": trial_bits,
            "not_tried": obstacle,
            "kind": "relative" if vectors.queries is None else "logit",
        },
        "summary": summarise(rows),
        "heads": rows,
    }
