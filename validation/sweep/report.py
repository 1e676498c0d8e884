"""A sweep as files: sweep.json (checked against its schema), sweep.csv, sweep.html; nothing is computed here."""

from __future__ import annotations

import json
from base64 import b64encode
from html import escape
from pathlib import Path

from tq_core.show import html
from validation.figures import Figure
from validation.report.files import write_files
from validation.sweep.figures import figures
from validation.sweep.result import Result
from validation.sweep.text import as_csv, notes, table

SCHEMA_FILE = Path(__file__).parents[1] / "schema" / "sweep-v1.schema.json"
STYLE = (
    ":root{color-scheme:light dark}body{font-family:sans-serif;max-width:76rem;margin:1rem auto;padding:0 1rem}"
    "img{max-width:100%;background:#fff}table{font-size:.85rem}figure{margin:1rem 0}@media print{details{display:block}}"
)


def validate(data: Result) -> None:
    """Raise jsonschema.ValidationError unless data is what the schema says."""
    import jsonschema

    jsonschema.validate(data, json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def _figure(figure: Figure) -> str:
    image = b64encode(figure.svg).decode()
    return (
        f'<figure><img alt="{escape(figure.alt, quote=True)}" src="data:image/svg+xml;base64,{image}">'
        f"<figcaption>{escape(figure.title)}</figcaption></figure>"
        + html.details("The figure in numbers", html.table(figure.columns, figure.rows))
    )


def page(result: Result, drawn: list[Figure]) -> str:
    """One self-contained page: what was asked, the tables, the figures, what was not read and why."""
    run, sweep = result["run"], result["sweep"]
    body = [
        f"<h1>Sweep {escape(sweep['name'])}</h1>",
        html.paragraph(sweep["question"]),
        html.paragraph(f"Status: {result['status']}. Result digest: {result['result_digest']}."),
        html.paragraph(f"Made by: {run['command']}"),
    ]
    for w in result["workloads"]:
        body.append(f"<h2>{escape(w['model'])}: {escape(w['title'])}, {w['tokens']} tokens</h2>")
        body.append(html.paragraph(f"{w['prompts']} prompts, {w['tokens_scored']} predictions scored. Shows: {w['shows']} Cannot show: {w['cannot_show']}"))  # fmt: skip
        body.append(html.table(*table(result, w["model"], w["name"], w["tokens"])))
    body.append("<h2>Figures</h2>")
    body += [_figure(f) for f in drawn]
    metrics = [[m["name"], m["title"], m["formula"], m["unit"]] for m in result["metrics"]]
    body += ["<h2>Metrics</h2>", html.table(["name", "title", "formula", "unit"], metrics)]
    body += ["<h2>Not in the tables</h2>", *[html.paragraph(n) for n in notes(result) or ["Nothing."]]]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>tq sweep: {escape(sweep['name'])}</title><style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def write(result: Result, folder: Path) -> dict[str, Path]:
    """Write the three files, the JSON last; paths by suffix. Raises ReportError where that is not possible."""
    drawn = figures(result)
    data = {**result, "figures": [f.describe() for f in drawn]}
    validate(data)
    texts = {
        "sweep.csv": as_csv(result),
        "sweep.html": page(result, drawn),
        "sweep.json": json.dumps(data, indent=1, allow_nan=False) + "\n",
    }
    made = write_files({name: text.encode() for name, text in texts.items()}, folder)
    return {Path(name).suffix[1:]: made / name for name in texts}
