"""Two loaded reports: identical, not comparable, or row by row same, improved, regressed, missing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from validation.diff.judge import judge, judge_gate, judge_timing
from validation.diff.rows import unique, values
from validation.schema import canonical

Outcome = Literal["identical", "same", "improved", "regressed", "not comparable"]
EXIT: dict[str, int] = {"identical": 0, "same": 0, "improved": 0, "regressed": 1, "not comparable": 3}
WORSE = ("regressed", "new fail", "missing")
BETTER = ("improved", "fixed")
Rows = list[dict[str, Any]]


@dataclass
class Difference:
    """``differs``: why the two are not about the same thing. ``forced``: compared nevertheless.

    gates: {name, verdict, first, second, evidence}; rows: {kind, where, metric, arm, first, second, unit, verdict, why}, first
    and second with low and high; measurements: {what, first, second, unit, ratio, verdict}, and ``machine`` why there are none.
    """

    outcome: Outcome
    digests: tuple[str, str]
    differs: list[str] = field(default_factory=list)
    forced: bool = False
    gates: Rows = field(default_factory=list)
    rows: Rows = field(default_factory=list)
    measurements: Rows = field(default_factory=list)
    machine: str = ""

    @property
    def code(self) -> int:
        """Exit code."""
        return EXIT[self.outcome]

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {**asdict(self), "exit": self.code}


def unlike(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """In what the two differ that makes their numbers answers to different questions, in words; empty when in nothing."""
    out = []
    for name, of in (("study", _study), ("profile", lambda r: r["profile"]), ("workloads", _workloads)):
        first, second = of(a), of(b)
        if canonical(first) != canonical(second):
            out.append(f"{name}: {', '.join(_paths(first, second))}")
    mine, other = ({i["name"]: i["tokens_sha256"] for i in r["inputs"]} for r in (a, b))
    if mine != other:
        changed = sorted(n for n in mine.keys() | other.keys() if mine.get(n) != other.get(n))
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        out.append(f"inputs: {', '.join(changed[:5])}{more}")
    return out


def _study(report: dict[str, Any]) -> dict[str, Any]:
    study = report["study"] or {}
    return {k: study.get(k) for k in ("name", "version", "sha256", "exploratory", "seeds")}


def _workloads(report: dict[str, Any]) -> dict[str, Any]:
    return {w["name"]: {"version": w["version"], "digest": w["digest"]} for w in report["workloads"]}


def _paths(a: Any, b: Any, at: str = "") -> list[str]:
    """Where two pieces of plain data differ, at most five places."""
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return [] if canonical(a) == canonical(b) else [at or "all of it"]
    out: list[str] = []
    for key in sorted(a.keys() | b.keys()):
        out += _paths(a.get(key), b.get(key), f"{at}.{key}" if at else key)
    return out[:5]


def compare(a: dict[str, Any], b: dict[str, Any], force: bool = False) -> Difference:
    """The second report against the first; both as ``load`` gives them. ``force`` compares what is not about the same thing."""
    digests = a["result_digest"], b["result_digest"]
    if digests[0] == digests[1]:
        return Difference("identical", digests)
    differs = unlike(a, b)
    if differs and not force:
        return Difference("not comparable", digests, differs)
    gates, rows = _gates(a, b), _rows(a, b)
    verdicts = {r["verdict"] for r in (*gates, *rows)}
    outcome: Outcome = "same"
    if verdicts & set(WORSE):
        outcome = "regressed"
    elif verdicts & set(BETTER):
        outcome = "improved"
    found = Difference(outcome, digests, differs, bool(differs), gates, rows)
    if canonical(a["run"]["machine"]) != canonical(b["run"]["machine"]):
        found.machine = f"not compared, the machines differ: {', '.join(_paths(a['run']['machine'], b['run']['machine']))}"  # fmt: skip
    else:
        found.measurements = _measurements(a, b)
    return found


def _gates(a: dict[str, Any], b: dict[str, Any]) -> Rows:
    first, second = (dict(zip(unique([(g["name"],) for g in r["gates"]]), r["gates"])) for r in (a, b))
    out = []
    for key in dict.fromkeys([*first, *second]):
        old, new = first.get(key), second.get(key)
        told = new or old or {}
        row = {"name": " ".join(key), "verdict": judge_gate(old, new), "evidence": told["evidence"]}
        out.append({**row, "first": _status(old), "second": _status(new)})
    return out


def _status(gate: dict[str, Any] | None) -> str:
    return "absent" if gate is None else gate["status"]


def _rows(a: dict[str, Any], b: dict[str, Any]) -> Rows:
    first, second = values(a), values(b)
    out = []
    for key in dict.fromkeys([*first, *second]):
        old, new = first.get(key), second.get(key)
        verdict, why = judge(old, new)
        kind, where, metric, arm, *again = key
        row = {"kind": kind, "where": " ".join([where, *again]), "metric": metric, "arm": arm}
        unit = (new or old).unit  # type: ignore[union-attr]
        ends = {n: None if v is None else {"value": v.value, "low": v.low, "high": v.high, "status": v.status} for n, v in (("first", old), ("second", new))}  # fmt: skip
        out.append({**row, **ends, "unit": unit, "verdict": verdict, "why": why})
    return out


def _measurements(a: dict[str, Any], b: dict[str, Any]) -> Rows:
    first, second = _timings(a), _timings(b)
    out = []
    for key in first:
        if key in second:
            verdict, ratio = judge_timing(first[key], second[key])
            row = {"what": ", ".join(k for k in key if k), "first": first[key]["value"], "second": second[key]["value"]}  # fmt: skip
            out.append({**row, "unit": second[key]["unit"], "ratio": ratio, "verdict": verdict})
    return out


def _timings(report: dict[str, Any]) -> dict[tuple[str, ...], dict[str, Any]]:
    rows = [*report["performance"], *report["measurements"]]
    names = [tuple("" if r.get(k) is None else str(r.get(k)) for k in ("what", "arm", "context", "where", "unit")) for r in rows]  # fmt: skip
    return dict(zip(unique(names), rows))
