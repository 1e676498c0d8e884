"""A difference in words, the conclusion first, what became worse before the rest."""

from __future__ import annotations

from typing import Any

from tq_core.show.html import text_table
from validation.diff.compare import BETTER, WORSE, Difference
from validation.report import show

QUIET = ("same",)
CHANGED = "changed"
OPENING = {
    "identical": "identical results: both have the result digest {digest}",
    "same": "SAME: the results differ, no gate changed and nothing moved beyond its interval or budget.",
    "improved": "IMPROVED: {better} better, nothing worse or missing.",
    "regressed": "REGRESSED: {worse} worse or missing, {better} better.",
    "not comparable": "NOT COMPARABLE: the two reports are not about the same thing (--force compares them nevertheless).",
}


def printable(text: str) -> str:
    """Text from a report, safe for a terminal: control characters and halves of pairs by their numbers."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def opening(d: Difference) -> str:
    """The first sentence."""
    verdicts = [r["verdict"] for r in (*d.gates, *d.rows)]
    worse, better = (sum(v in which for v in verdicts) for which in (WORSE, BETTER))
    return OPENING[d.outcome].format(digest=d.digests[0], worse=worse, better=better)


def ranked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that are better, worse, missing or new, the worse ones first."""
    told = [r for r in rows if r["verdict"] not in (*QUIET, CHANGED)]
    return sorted(told, key=lambda r: (r["verdict"] not in WORSE, r["verdict"] not in BETTER))


def value(end: dict[str, Any] | None) -> str:
    """A number with its interval and status."""
    if end is None:
        return "absent"
    span = "" if end["low"] is None or end["high"] is None else f" [{show(end['low'])}, {show(end['high'])}]"
    return f"{show(end['value'])}{span}" + (f" {end['status']}" if end["status"] else "")


def as_text(d: Difference) -> str:
    """What `tq diff` prints."""
    out = [opening(d)]
    out += [f"  differs in {printable(line)}" for line in d.differs]
    if d.outcome in ("identical", "not comparable"):
        return "\n".join(out)
    gates = [[r["verdict"], r["name"], r["first"], r["second"], r["evidence"]] for r in ranked(d.gates)]
    rows = [
        [r["verdict"], r["kind"], r["where"], r["metric"], r["arm"], value(r["first"]), value(r["second"]), r["unit"], r["why"]]
        for r in ranked(d.rows)
    ]  # fmt: skip
    times = [[r["verdict"], r["what"], show(r["first"]), show(r["second"]), show(r["ratio"]), r["unit"]] for r in d.measurements]  # fmt: skip
    out += _table("gates", ["verdict", "gate", "first", "second", "evidence"], gates)
    out += _table(
        "values", ["verdict", "kind", "where", "metric", "arm", "first", "second", "unit", "why"], rows
    )
    quiet = sum(r["verdict"] in QUIET for r in (*d.gates, *d.rows))
    changed = sum(r["verdict"] == CHANGED for r in d.rows)
    more = (
        f", {changed} values moved where nothing stored can judge it (--json lists them)" if changed else ""
    )
    out.append(f"{quiet} gates and values are the same{more}.")
    if d.machine:
        out.append(f"measurements: {printable(d.machine)}")
    else:
        columns = ["verdict", "what", "first", "second", "ratio", "unit"]
        out += _table("measurements (they decide nothing)", columns, times)
    return "\n".join(out)


def _table(title: str, columns: list[str], rows: list[list[str]]) -> list[str]:
    if not rows:
        return []
    return ["", title, text_table(columns, [[printable(cell) for cell in row] for row in rows]), ""]
