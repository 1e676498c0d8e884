"""The verdict on one number, one gate or one timing that both reports have, or only one."""

from __future__ import annotations

import math
from typing import Any, Literal

from validation.diff.rows import Value

Verdict = Literal["same", "improved", "regressed", "missing", "new", "changed"]
GateVerdict = Literal["same", "fixed", "new fail", "still fails", "missing", "new"]
LEAST_REPEATS = 9  # below it a timing's deviation is itself too uncertain
DEVIATIONS = 3 * 1.4826  # three standard deviations, from median absolute deviations of normal errors
MORE_IS_BETTER = ("/s", "per second")


def judge_gate(a: dict[str, Any] | None, b: dict[str, Any] | None) -> GateVerdict:
    """A gate that failed now and not before is a new fail; one that was judged and no longer is, is missing."""
    was = "not exercised" if a is None else a["status"]
    now = "not exercised" if b is None else b["status"]
    if now == "fail":
        return "still fails" if was == "fail" else "new fail"
    if now == "not exercised":
        return "same" if was == now else "missing"
    return {"fail": "fixed", "not exercised": "new", "pass": "same"}[was]  # type: ignore[return-value]


def judge(a: Value | None, b: Value | None) -> tuple[Verdict, str]:
    """The verdict and what it rests on. "changed" is a change that nothing stored can judge; it decides nothing."""
    if a is None:
        fails = b is not None and b.status == "fail" and not b.control
        return ("regressed", "new, and fails its budget") if fails else ("new", "only the second has it")
    if b is None:
        return "missing", "only the first has it"
    if a.control or b.control:
        return ("same", "equal") if a.value == b.value else ("changed", "a control: its gate judges it")
    if a.status is not None or b.status is not None:
        return _judge_decision(a, b)
    if a.value is None or b.value is None:
        if a.value is b.value:
            return "same", "neither has a value"
        return ("new", "only the second has a value") if a.value is None else ("missing", "only the first has a value")  # fmt: skip
    if a.value == b.value:
        return "same", "equal"
    if a.exact:
        return _direction(a, b), "counted"
    if a.low is not None and a.high is not None and b.low is not None and b.high is not None:
        if a.high < b.low or b.high < a.low:
            return _direction(a, b), "the intervals do not overlap"
        return "same", "the intervals overlap"
    if b.tolerance is None:
        return "changed", "no interval and no budget"
    if abs(b.value - a.value) <= b.tolerance:
        return "same", f"within the budget, {b.tolerance:g}"
    return _direction(a, b), f"moved by more than the budget, {b.tolerance:g}"


def _judge_decision(a: Value, b: Value) -> tuple[Verdict, str]:
    if a.status != b.status:
        if b.status == "not exercised":
            return "missing", "no longer exercised"
        if b.status == "fail":
            return "regressed", "fails its budget"
        return ("improved", "holds its budget") if a.status == "fail" else ("new", "now exercised")
    if a.value == b.value or a.value is None or b.value is None:
        return "same", "equal" if a.value == b.value else "one has no loss"
    if a.high is None or b.high is None:
        return "same", "on the same side of the budget"
    if b.value > a.high:
        return "regressed", "the loss lies beyond the first's bound"
    if a.value > b.high:
        return "improved", "the first's loss lies beyond the bound"
    return "same", "within the bounds"


def _direction(a: Value, b: Value) -> Verdict:
    if b.higher_is_better is None or a.value is None or b.value is None:
        return "changed"
    return "improved" if (b.value > a.value) == b.higher_is_better else "regressed"


def judge_timing(a: dict[str, Any], b: dict[str, Any]) -> tuple[str, float | None]:
    """Whether a timing moved beyond its deviation, and the ratio second / first. It decides nothing."""
    x, y = a["value"], b["value"]
    ratio = y / x if x and y is not None else None
    spread = [
        r["median_absolute_deviation"] for r in (a, b) if r.get("median_absolute_deviation") is not None
    ]
    repeats = [r["n"] for r in (a, b) if r.get("n") is not None]
    if ratio is None or len(spread) < 2 or len(repeats) < 2:
        return "not judged: no deviation", ratio
    if min(repeats) < LEAST_REPEATS:
        return f"noise: fewer than {LEAST_REPEATS} repeats", ratio
    if abs(y - x) <= DEVIATIONS * math.hypot(*spread):
        return "noise: within the deviation", ratio
    more = any(mark in b["unit"] for mark in MORE_IS_BETTER)
    return "better" if (y > x) == more else "worse", ratio
