"""A comparison as files: compare.json, compare.txt, compare.html and pareto.svg; nothing is computed here."""

from __future__ import annotations

import json
from base64 import b64encode
from html import escape
from pathlib import Path
from typing import Any

from tq_core.cache.atomic import replace_file
from tq_core.show import html
from validation.compare.figures import pareto

STYLE = (
    ":root{color-scheme:light dark}body{font-family:sans-serif;max-width:76rem;margin:1rem auto;padding:0 1rem}"
    "img{max-width:100%;background:#fff}table{font-size:.85rem}"
)


def page(result: dict[str, Any], figure: Any) -> str:
    """One self-contained page: plot, its numbers, the rows, the claims with their sources."""
    from validation.compare.result import table_rows

    plan = result["plan"]
    image = b64encode(figure.svg).decode()
    claims = [
        [
            c["subject"],
            c["quantity"],
            *(
                f"{c[kind]} ({c['sources'][kind]})" if c[kind] else "-"
                for kind in ("paper", "project", "calculated")
            ),
            "not run" if c["measured"] is None else c["measured"],
            c["verdict"],
            c["command"],
            c["note"],
        ]
        for c in result["claims"]
    ]
    columns = [
        "claim",
        "quantity",
        "paper",
        "project",
        "calculated",
        "measured here",
        "verdict",
        "measured by",
        "note",
    ]
    body = [
        f"<h1>Arms compared on {escape(result['model']['name'])}</h1>",
        html.paragraph(
            f"Documents: {plan['documents']} of {plan['tokens']} tokens. {plan['mask'].capitalize()}."
        ),
        html.paragraph(f"Made by: {result['run']['command']}"),
        f'<figure><img alt="{escape(figure.alt, quote=True)}" src="data:image/svg+xml;base64,{image}">'
        f"<figcaption>{escape(figure.title)}</figcaption></figure>",
        html.details("The figure in numbers", html.table(figure.columns, figure.rows)),
        "<h2>Rows</h2>",
        html.table(*table_rows(result)),
        "<h2>Claims</h2>",
        html.table(columns, claims),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>tq compare</title><style>{STYLE}</style>'
        f"</head><body>{''.join(body)}</body></html>\n"
    )


def write(result: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Write the files and return them by name. Raises OSError when that is not possible."""
    from validation.compare.command import as_text

    figure = pareto(result)
    data = {**result, "figures": [figure.describe()]}
    contents = {
        "compare.json": json.dumps(data, indent=1, allow_nan=False) + "\n",
        "compare.txt": as_text(result) + "\n",
        "compare.html": page(result, figure),
        "pareto.svg": figure.svg.decode(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        replace_file(folder / name, [text.encode()])
    return {name: folder / name for name in contents}
