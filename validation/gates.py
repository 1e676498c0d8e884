"""Stop rules: a claim, what is measured for it, the limit and why, and the verdict with its evidence.

A gate that had nothing to look at is "not exercised", and then the whole run is incomplete: an absent
check is not a passed one. A value that is not finite fails.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, Literal, TypeVar

Status = Literal["pass", "fail", "not exercised"]
Overall = Literal["pass", "fail", "incomplete"]
Op = Literal["==", "<=", "<", ">=", ">"]
Facts = TypeVar("Facts")
_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Measured:
    """What a gate saw: a number, or None where there was nothing to measure, and where it comes from."""

    value: float | None
    evidence: str


@dataclass(frozen=True)
class Verdict:
    """Outcome of one gate."""

    name: str
    claim: str
    status: Status
    value: float | None
    op: str
    limit: float
    unit: str
    why: str
    evidence: str
    command: str = ""
    volatile: bool = False

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form; a value that is not finite is left out, the evidence tells it."""
        finite = self.value is not None and math.isfinite(self.value)
        return {**asdict(self), "value": self.value if finite else None}


@dataclass(frozen=True)
class Gate(Generic[Facts]):
    """``measure`` looks at the findings of a run; the claim holds when its value stands ``op`` to ``limit``.

    command: what repeats this check alone, or the smallest run that has it. volatile: its value is measured of the
    machine, so that another run has another one; the verdict should not.
    """

    name: str
    claim: str
    measure: Callable[[Facts], Measured]
    op: Op
    limit: float
    unit: str
    why: str
    command: str = ""
    volatile: bool = False

    def judge(self, facts: Facts) -> Verdict:
        """Measure and compare."""
        seen = self.measure(facts)
        status: Status
        if seen.value is None:
            status = "not exercised"
        elif not math.isfinite(seen.value):
            status = "fail"
        else:
            status = "pass" if _HOLDS[self.op](seen.value, self.limit) else "fail"
        return Verdict(
            self.name, self.claim, status, seen.value, self.op, self.limit, self.unit, self.why, seen.evidence, self.command,
            self.volatile,
        )  # fmt: skip


def overall(verdicts: Sequence[Verdict]) -> Overall:
    """fail when one failed, incomplete when one was not exercised or there is none, else pass."""
    statuses = {v.status for v in verdicts}
    if "fail" in statuses:
        return "fail"
    return "pass" if statuses == {"pass"} else "incomplete"


def count(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """How many gates there are and how they ended."""
    total = {"total": len(verdicts), "pass": 0, "fail": 0, "not_exercised": 0}
    for verdict in verdicts:
        total[verdict.status.replace(" ", "_")] += 1
    return total
