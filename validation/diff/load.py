"""A report from a folder, from report.json alone, or from the JSON inside report.html."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from validation.report import ReportError, check_folder
from validation.report.reading import accept, parse_json, read_bounded

OPENING, CLOSING = b'<script type="application/json" id="tq-report">', b"</script>"


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON of a report whose schema and digest are right; of a folder also its mark, sums and samples.

    Raises ReportError for whatever is no whole report of this version.
    """
    place = Path(path)
    if place.is_dir():
        return check_folder(place)
    if place.suffix.lower() in (".html", ".htm"):
        return accept(parse_json(embedded(read_bounded(place), place.name), place.name), place.name)
    if place.suffix.lower() == ".json":
        return accept(parse_json(read_bounded(place), place.name), place.name)
    raise ReportError(f"report: expected a folder, a .json or a .html, got {'another file' if place.exists() else 'nothing'}: {place}")  # fmt: skip


def embedded(page: bytes, name: str) -> bytes:
    """The JSON inside a page. The page is searched, not parsed: its writer lets no "<" into the JSON."""
    if page.count(OPENING) != 1:
        raise ReportError(f"{name}: expected one report inside the page, got {page.count(OPENING)}")
    begin = page.index(OPENING) + len(OPENING)
    end = page.find(CLOSING, begin)
    if end < 0:
        raise ReportError(
            f"{name}: expected the end of the report inside the page, got none: it was cut short"
        )
    return page[begin:end]
