"""Writing a record as one self-contained HTML file and one JSON file. No number is computed here."""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tq_core.errors import TqError, ValueRangeError, check
from validation.figures import Figure, all_figures
from validation.schema import Record

TEMPLATES = Path(__file__).with_name("templates")
MARKS = {"pass": "\u2714", "fail": "\u2718", "incomplete": "\u25d0", "not exercised": "\u25cb"}


class ReportError(TqError):
    """A report could not be written."""


def show(value: Any) -> str:
    """A number as the report prints it; None is an en dash."""
    if value is None:
        return "\u2013"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    if abs(value) < 1e-4:
        return f"{value:.2e}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def span(interval: dict[str, Any] | None) -> str:
    """An interval as the report prints it."""
    if interval is None or interval["low"] is None:
        return "\u2013"
    return f"{show(interval['low'])} to {show(interval['high'])}"


def list_of(row: dict[str, Any], *names: str) -> list[Any]:
    """The named entries of a row, for a table."""
    return [row[name] for name in names]


def payload(record: Record, figures: list[Figure]) -> dict[str, Any]:
    """What report.json holds: the record, its digest, and the figures' tables and digests."""
    return {**record.as_dict(), "figures": [f.describe() for f in figures]}


def render(template: str, **values: Any) -> str:
    """A template of this folder, filled; an unknown name in it is an error."""
    import jinja2

    loader = jinja2.FileSystemLoader(str(TEMPLATES))
    env = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    env.filters.update(show=show, span=span, list_of=list_of)
    env.globals.update(marks=MARKS)
    return env.get_template(template).render(**values)


def embed(data: dict[str, Any]) -> str:
    """Data as JSON that can stand in a script element, which "</" would end."""
    return json.dumps(data, allow_nan=False).replace("<", "\\u003c")


def render_html(data: dict[str, Any], figures: list[Figure]) -> str:
    """The report as one HTML document that needs nothing else."""
    images = {f.name: base64.b64encode(f.svg).decode() for f in figures}
    return render("report.html.j2", r=data, images=images, embedded=embed(data))


def write(record: Record, out_dir: str | os.PathLike[str]) -> dict[str, Path]:
    """Write report.html and report.json into ``out_dir`` (made when missing); returns their paths.

    Both are complete before either is moved into place, the JSON last; earlier files of these names are
    replaced, and an interrupted run leaves them as they were. Raises ReportError when the folder cannot be
    written and ValueRangeError when ``out_dir`` is a file.
    """
    figures = all_figures(record.as_dict())
    data = payload(record, figures)
    texts = {
        "report.html": render_html(data, figures),
        "report.json": json.dumps(data, indent=1, allow_nan=False) + "\n",
    }
    return write_texts(texts, out_dir)


def write_certificate(data: dict[str, Any], out_dir: str | os.PathLike[str]) -> dict[str, Path]:
    """Write a parity certificate as parity.html and parity.json; data is its ``as_dict`` with "status" and "run".

    Raises as ``write`` does.
    """
    texts = {
        "parity.html": render("parity.html.j2", p=data, embedded=embed(data)),
        "parity.json": json.dumps(data, indent=1, allow_nan=False) + "\n",
    }
    return write_texts(texts, out_dir)


def write_texts(texts: dict[str, str], out_dir: str | os.PathLike[str]) -> dict[str, Path]:
    """Write files into ``out_dir``, all complete before the first is moved into place; paths by suffix ("html", "json").

    Raises as ``write`` does.
    """
    folder = Path(out_dir)
    check(not folder.exists() or folder.is_dir(), "out", "a folder", f"the file {folder}", ValueRangeError)
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".report-", dir=folder))
    except OSError as error:
        raise ReportError(
            f"out: expected a folder that can be written, got {folder}: {error.strerror}"
        ) from error
    try:
        for name, text in texts.items():
            with open(staging / name, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        for name in texts:
            os.replace(staging / name, folder / name)
    except OSError as error:
        raise ReportError(f"out: expected room for the report in {folder}, got {error.strerror}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if made and not any(folder.iterdir()):
            folder.rmdir()
    return {Path(name).suffix[1:]: folder / name for name in texts}
