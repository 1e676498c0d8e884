"""A report as a folder: page, JSON, samples, sums and a mark that is written last; and the check of such a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from validation.figures import all_figures
from validation.report.files import MARK, SUMS, ReportError, encoded, mark_of, sums_of, write_files
from validation.report.page import embed, payload, render, render_html
from validation.report.reading import accept, parse_json, read_bounded
from validation.report.samples import Sample, as_lines, read_lines
from validation.schema import Record, problem

HTML, JSON, SAMPLES = "report.html", "report.json", "samples.jsonl"


def write(
    record: Record, out_dir: str | os.PathLike[str], samples: Sequence[Sample] = (), incomplete: str = ""
) -> dict[str, Path]:
    """Write the report into ``out_dir`` (made when missing); returns the paths as html, json, samples, sums, mark.

    ``samples``: one dict per (prompt, arm), as the schema's "sample". ``incomplete``: why the run ended early; the
    report is then incomplete and says so; what failed until then still stands in it.

    Earlier files of these names are replaced, other files stay. A write that fails or is interrupted leaves an
    earlier report whole, or nothing; see ``write_files``. Raises ReportError when the folder cannot be written, the
    disk is full, or the record or a sample breaks the schema; ValueRangeError when ``out_dir`` is a file.
    """
    if incomplete:
        record = cut_short(record, incomplete)
    try:
        data = record.as_dict()
    except (TypeError, ValueError) as error:
        raise ReportError(f"record: expected plain finite data, got {error}") from error
    wrong = problem({**data, "figures": []})
    if wrong is not None:
        raise ReportError(f"record: expected what the schema allows, got {wrong}")
    lines = as_lines(samples)
    figures = all_figures(data)
    data = payload(data, figures)
    wrong = problem(data)
    if wrong is not None:
        raise ReportError(f"figures: expected what the schema allows, got {wrong}")
    texts = {
        HTML: render_html(data, figures, samples),
        JSON: json.dumps(data, indent=1, allow_nan=False) + "\n",
        SAMPLES: lines,
    }
    files = encoded(texts)
    sums = sums_of(files)
    folder = write_files({**files, SUMS: sums, MARK: mark_of(sums)}, out_dir)
    names = {"html": HTML, "json": JSON, "samples": SAMPLES, "sums": SUMS, "mark": MARK}
    return {kind: folder / name for kind, name in names.items()}


def cut_short(record: Record, reason: str) -> Record:
    """The record of a run that ended early: incomplete, and the reason stands first, before what failed until then."""
    told = record.verdict if record.status == "fail" else record.verdict[1:]
    return replace(
        record,
        status="incomplete",
        incomplete=reason,
        verdict=[f"INCOMPLETE: the run ended early: {reason}.", *told],
        not_exercised=[f"The rest of the run: {reason}.", *record.not_exercised],
    )


def check_folder(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The report.json of a folder whose mark, sums, schema, samples and digest are right. Raises ReportError otherwise."""
    folder = Path(path)
    if not folder.is_dir():
        raise ReportError(f"report: expected a folder, got {folder}")
    if not (folder / MARK).is_file():
        raise ReportError(f"report: expected the mark {MARK} in {folder}, got none: it was not completely written")  # fmt: skip
    sums = read_bounded(folder / SUMS)
    if read_bounded(folder / MARK) != mark_of(sums):
        raise ReportError(f"{MARK}: expected the mark of this {SUMS}, got another: it was changed or not completely written")  # fmt: skip
    files = {name: read_bounded(folder / name) for name in (HTML, JSON, SAMPLES)}
    if sums != sums_of(files):
        told = sums.decode("utf-8", "replace").splitlines()
        right = sums_of(files).decode().splitlines()
        wrong = [line.split("  ", 1)[1] for line in right if line not in told] or [SUMS]
        raise ReportError(f"{SUMS}: expected the sums of the files, got others for {', '.join(wrong)}")
    data = accept(parse_json(files[JSON], JSON), JSON)
    read_lines(files[SAMPLES], SAMPLES)
    return data


def write_certificate(data: dict[str, Any], out_dir: str | os.PathLike[str]) -> dict[str, Path]:
    """Write a parity certificate as parity.html and parity.json; data is its ``as_dict`` with "status" and "run".

    Raises as ``write`` does.
    """
    texts = {
        "parity.html": render("parity.html.j2", p=data, embedded=embed(data)),
        "parity.json": json.dumps(data, indent=1, allow_nan=False) + "\n",
    }
    folder = write_files(encoded(texts), out_dir)
    return {"html": folder / "parity.html", "json": folder / "parity.json"}
