"""Small pieces of HTML that follow the page's theme: tables, folded details, a status line."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

Row = Sequence[object]
_CELL = "padding:2px 10px;border-bottom:1px solid var(--jp-border-color2,#ccc);"


def cell_text(value: object) -> str:
    """A value as the tables print it: floats with four significant digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def table(columns: Sequence[str], rows: Sequence[Row], caption: str = "") -> str:
    """A table with row and column headers; numbers are aligned to the right."""
    head = "".join(f'<th scope="col" style="{_CELL}text-align:left">{escape(c)}</th>' for c in columns)
    body = []
    for row in rows:
        first, *rest = row
        cells = [
            f'<th scope="row" style="{_CELL}text-align:left;font-weight:normal">{escape(cell_text(first))}</th>'
        ]
        for value in rest:
            align = "right" if isinstance(value, (int, float)) else "left"
            cells.append(f'<td style="{_CELL}text-align:{align}">{escape(cell_text(value))}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    title = (
        f'<caption style="text-align:left;padding:2px 10px">{escape(caption)}</caption>' if caption else ""
    )
    return f'<table style="border-collapse:collapse">{title}<thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def text_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """The same table as plain text."""
    lines = [[str(c) for c in columns], *[[cell_text(v) for v in row] for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        "  ".join(v.ljust(w) for v, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def details(summary: str, body: str) -> str:
    """A folded section."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def paragraph(text: str) -> str:
    """Plain text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def status(text: str, alert: bool = False) -> str:
    """A line that a screen reader announces when it changes."""
    role = 'role="alert"' if alert else 'role="status" aria-live="polite"'
    return f'<div {role} style="color:var(--jp-ui-font-color1,#222);line-height:1.5">{escape(text)}</div>'
