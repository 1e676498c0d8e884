"""What is measured, and the rows that say it. A figure that a timer cannot have seen is refused; a gap is a row too."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from tq_core.errors import ValueRangeError, check

Row = dict[str, Any]
NOT_MEASURED = "not measured"
# Name -> unit, in the order in which they are printed. "peak RSS or peak WASM pages" are two rows.
MEASUREMENTS = {
    "prefill latency": "ms",
    "first-decode latency": "ms",
    "steady-state decode latency": "ms",
    "append-only codec time": "us per token and layer",
    "query-transform time": "us per token and layer",
    "key-scan time": "us per token and layer",
    "value-scan time": "us per token and layer",
    "allocator time": "ms",
    "WASM memory-growth events": "events",
    "peak RSS": "bytes",
    "peak WASM pages": "pages of 64 KiB",
    "packed payload bytes": "bytes",
    "scratch bytes": "bytes",
    "end-to-end speed": "tokens/s",
}
# Beside the thirteen: where a step's time goes, and speeds that other programs can be compared by.
SHARES = {
    "cache share of prefill": "%",
    "cache share of decode": "%",
    "prefill speed": "tokens/s",
    "decode speed": "tokens/s",
}
UNITS = MEASUREMENTS | SHARES
_COUNTS = ("WASM memory-growth events", "packed payload bytes", "scratch bytes")  # may be 0


def measured(
    what: str, arm: str, context: int, samples: Sequence[float], where: str, note: str = "", unit: str = ""
) -> Row:
    """A row with the median of ``samples`` and their median absolute deviation (None for a single one).

    Raises ValueRangeError for no samples, and for one that is not a number above 0 (counts: not below).
    """
    values = [float(x) for x in samples]
    check(bool(values), what, "at least one sample", "none", ValueRangeError)
    least = 0.0 if what in _COUNTS else math.ulp(0.0)
    for value in values:
        ok = math.isfinite(value) and value >= least
        expected = "a count of 0 or more" if what in _COUNTS else "a figure above 0: this timer saw nothing"
        check(ok, what, expected, value, ValueRangeError)
    middle = statistics.median(values)
    spread = statistics.median(abs(x - middle) for x in values) if len(values) > 1 else None
    return {
        "what": what, "arm": arm, "context": context, "value": middle, "unit": unit or UNITS[what],
        "median_absolute_deviation": spread, "n": len(values), "where": where, "note": note,
    }  # fmt: skip


def not_measured(what: str, arm: str, context: int, reason: str) -> Row:
    """A row without a figure, and why."""
    check(bool(reason), "reason", "why there is no figure", "nothing", ValueRangeError)
    return {
        "what": what, "arm": arm, "context": context, "value": None, "unit": UNITS[what],
        "median_absolute_deviation": None, "n": 0, "where": NOT_MEASURED, "note": reason,
    }  # fmt: skip


def figure(
    what: str, arm: str, context: int, samples: Sequence[float], where: str, note: str = "", unit: str = ""
) -> Row:
    """``measured``, or a row that says why its samples are no figure."""
    try:
        return measured(what, arm, context, samples, where, note, unit)
    except ValueRangeError as error:
        return not_measured(what, arm, context, f"refused: {error}")


def completed(rows: Iterable[Row], arm: str, context: int) -> list[Row]:
    """The rows in order, with a "not measured" row for every measurement that has none."""
    found = {row["what"]: row for row in rows}
    gap = "nothing measured it in this run"
    return [found.get(what) or not_measured(what, arm, context, gap) for what in UNITS]
