"""A record as one self-contained HTML page and the JSON inside it. No number is computed here."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from validation.figures import Figure
from validation.report.samples import Sample, chosen

TEMPLATES = Path(__file__).parents[1] / "templates"
MARKS = {
    "pass": "\u2714",
    "fail": "\u2718",
    "incomplete": "\u25d0",
    "not exercised": "\u25cb",
    "informative": "\u2714",
    "floor": "\u2581",
    "ceiling": "\u2594",
    "not told": "\u25cb",
}
SHOWN_REPLY = 1200  # characters of a reply on the page; samples.jsonl has all of them


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


def plain(text: str) -> str:
    """A reply as the page shows it: other control characters than a line's end by their numbers, and not endless."""
    shown = "".join(c if c in "\n\t" or c.isprintable() else f"\\u{ord(c):04x}" for c in text[:SHOWN_REPLY])
    return shown + (f" \u2026 ({len(text) - SHOWN_REPLY} characters more)" if len(text) > SHOWN_REPLY else "")


def payload(data: dict[str, Any], figures: Sequence[Figure]) -> dict[str, Any]:
    """What report.json holds: the record's ``as_dict``, and the figures' tables and digests."""
    return {**data, "figures": [f.describe() for f in figures]}


def render(template: str, **values: Any) -> str:
    """A template of this folder, filled; an unknown name in it is an error."""
    import jinja2

    loader = jinja2.FileSystemLoader(str(TEMPLATES))
    env = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    env.filters.update(show=show, span=span, list_of=list_of, plain=plain)
    env.globals.update(marks=MARKS)
    return env.get_template(template).render(**values)


def embed(data: dict[str, Any]) -> str:
    """Data as JSON that can stand in a script element, which "</" would end."""
    return json.dumps(data, allow_nan=False).replace("<", "\\u003c")


def render_html(data: dict[str, Any], figures: Sequence[Figure], samples: Sequence[Sample] = ()) -> str:
    """The report as one HTML document that needs nothing else."""
    from validation.prompt_metrics import PROMPT_METRICS

    known = {name: m.describe() for name, m in PROMPT_METRICS.items()}
    drawn = {f.name: (f, base64.b64encode(f.svg).decode()) for f in figures}
    few = {"shown": chosen(samples), "lines": len(samples)}
    return render("report.html.j2", r=data, drawn=drawn, samples=few, known=known, embedded=embed(data))
