"""A difference as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

from validation.diff.compare import Difference
from validation.diff.text import opening, ranked, value
from validation.report import render
from validation.report.files import encoded, write_files

MARKS = {"identical": "pass", "same": "pass", "improved": "pass", "regressed": "fail", "not comparable": "incomplete"}  # fmt: skip


def render_page(d: Difference, first: str, second: str) -> str:
    """The page; ``first`` and ``second`` name the reports."""
    rows = [[r["verdict"], r["kind"], r["where"], r["metric"], r["arm"], value(r["first"]), value(r["second"]), r["unit"], r["why"]] for r in ranked(d.rows)]  # fmt: skip
    gates = [[r["verdict"], r["name"], r["first"], r["second"], r["evidence"]] for r in ranked(d.gates)]
    quiet = sum(r["verdict"] == "same" for r in (*d.gates, *d.rows))
    names = {"first": first, "second": second, "look": MARKS[d.outcome]}
    return render("diff.html.j2", d=d, opening=opening(d), rows=rows, gates=gates, quiet=quiet, **names)


def write_page(d: Difference, path: Path, first: str, second: str) -> None:
    """Write the page, whole or not at all. Raises ReportError when it cannot be written."""
    write_files(encoded({path.name: render_page(d, first, second)}), path.parent)
