"""Rows of the result: one per contestant and cell, and how one row compares with the exact step's."""

from __future__ import annotations

from typing import Any

from validation.bench.ours import Entry, half_bytes
from validation.bench.plan import REFERENCE_SHAPE, REFERENCE_TOKENS, Cell
from validation.bench.timing import Samples, paired_ratio

Row = dict[str, Any]
DECODE = "decode step"


def row(cell: Cell, entry: Entry, samples: Samples) -> Row:
    """``ns_per_token_head`` is nanoseconds per token and KV head; of an append, per token that it appends."""
    units, ns = entry.tokens * cell.shape.n_kv_heads, samples.median
    made = {
        "name": samples.name, "task": entry.task, **conditions(cell), "tokens": entry.tokens,
        "ns_per_token_head": ns / units, "mad_ns_per_token_head": samples.mad / units,
        "min_ns_per_token_head": min(samples.ns) / units, "ns_per_call": ns,
        "payload_bytes": entry.payload_bytes, "payload_gbs": entry.payload_bytes / ns,
        "calls": samples.calls, "repeats": len(samples.ns), "samples_ns": [round(x, 1) for x in samples.ns],
        **entry.facts,
    }  # fmt: skip
    if entry.task == DECODE:
        made["fp16_equivalent_gbs"] = half_bytes(cell) / ns
    return made


def conditions(cell: Cell) -> Row:
    """The cell's part of a row."""
    return {"shape": cell.shape.name, "tokens": cell.tokens, "threads": cell.threads, "state": cell.state}


def not_measured(cell: Cell, name: str, task: str, reason: str) -> Row:
    """A row without figures, and why."""
    return {"name": name, "task": task, **conditions(cell), "reason": reason}


def comparisons(cell: Cell, entries: list[Entry], samples: list[Samples], base: str) -> list[Row]:
    """How many times faster than each decode step the step called ``base`` is: median, least and greatest of the rounds."""
    faster = next((s for s in samples if s.name == base and s.ns), None)
    found = []
    for entry, other in zip(entries, samples):
        if faster is None or other is faster or not other.ns or entry.task != DECODE:
            continue
        middle, low, high = paired_ratio(other, faster)
        found.append(
            {"peer": other.name, "base": base, **conditions(cell), "ratio": middle, "low": low, "high": high}
        )
    return found


def reference_ratios(compared: list[Row], base: str) -> tuple[dict[str, float], Row]:
    """({contestant: speed of ``base`` over it}, the conditions): one thread, cold, the shortest long history measured."""
    wanted = [
        c
        for c in compared
        if c["base"] == base
        and c["shape"] == REFERENCE_SHAPE
        and c["threads"] == 1
        and c["tokens"] >= REFERENCE_TOKENS
    ]
    wanted = wanted or [c for c in compared if c["base"] == base]
    if not wanted:
        return {}, {}
    best = min(wanted, key=lambda c: (c["state"] != "cold", c["threads"], c["tokens"]))
    where = {k: best[k] for k in ("shape", "tokens", "threads", "state")}
    chosen = [c for c in wanted if all(c[k] == v for k, v in where.items())]
    # What is only measured warm (guests behind a pipe) is compared warm.
    rest = [
        c for c in wanted if c["state"] == "warm" and all(c[k] == v for k, v in where.items() if k != "state")
    ]
    return {c["peer"]: round(c["ratio"], 3) for c in [*rest, *chosen]}, where
