"""A difference as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from validation.diff.compare import Difference
from validation.diff.text import CHANGED, opening, ranked, value
from validation.report import render
from validation.report.files import check_own, encoded, write_files

TITLE = b": two validation reports</title>"
MARKS = {"identical": "pass", "same": "pass", "improved": "pass", "regressed": "fail", "not comparable": "incomplete"}  # fmt: skip


def render_page(d: Difference, first: str, second: str) -> str:
    """The page; ``first`` and ``second`` name the reports."""
    rows = [_cells(r) for r in ranked(d.rows)]
    changed = [_cells(r) for r in d.rows if r["verdict"] == CHANGED]
    gates = [[r["verdict"], r["name"], r["first"], r["second"], r["evidence"]] for r in ranked(d.gates)]
    quiet = sum(r["verdict"] == "same" for r in (*d.gates, *d.rows))
    names = {"first": first, "second": second, "look": MARKS[d.outcome]}
    return render(
        "diff.html.j2", d=d, opening=opening(d), rows=rows, changed=changed, gates=gates, quiet=quiet, **names
    )


def _cells(row: dict[str, Any]) -> list[str]:
    told = [row[n] for n in ("verdict", "kind", "where", "metric", "arm")]
    return [*told, value(row["first"]), value(row["second"]), row["unit"], row["why"]]


def check_place(path: Path) -> None:
    """Raise ValueRangeError for a folder, and for a file that is no page of an earlier difference and not empty."""
    check_own(path, "html", "a page of an earlier `tq diff`", lambda data: TITLE in data[:2000])


def write_page(d: Difference, path: Path, first: str, second: str) -> None:
    """Write the page, whole or not at all. Raises the error of ``check_place``, and ReportError when it cannot be written."""
    check_place(path)
    write_files(encoded({path.name: render_page(d, first, second)}), path.parent)
