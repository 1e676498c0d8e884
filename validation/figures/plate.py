"""What every figure of a report is: SVG without a clock or random ids, alternative text, and its data as a table.

Arms differ by marker, line style and hatching as well as by colour. The plate is white, so it reads in a dark page too.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MARKERS = "osD^vPX*"
LINES = ("-", "--", "-.", ":")
HATCHES = ("", "//", "\\\\", "xx", "--", "++")
# Okabe and Ito's palette: the colours stay apart for readers who see fewer of them.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442")


@dataclass(frozen=True)
class Figure:
    """One figure: ``columns`` and ``rows`` are the numbers that it draws."""

    name: str
    title: str
    alt: str
    columns: list[str]
    rows: list[list[Any]]
    svg: bytes

    def describe(self) -> dict[str, Any]:
        """JSON-able form, with the digest of the image in its place."""
        digest = hashlib.sha256(self.svg).hexdigest()
        table = {"columns": self.columns, "rows": self.rows}
        return {"name": self.name, "title": self.title, "alt": self.alt, "table": table, "svg_sha256": digest}


def render(name: str, size: tuple[float, float], draw: Callable[[Any], None]) -> bytes:
    """SVG bytes of what ``draw`` puts on the axes; the same bytes for the same drawing."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    settings: Any = {
        "svg.hashsalt": f"tq-{name}",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9.0,
    }
    with matplotlib.rc_context(settings):
        canvas = Canvas(figsize=size, layout="constrained")
        draw(canvas.subplots())
        out = io.BytesIO()
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Title": name})
    return out.getvalue()


def look(i: int) -> dict[str, Any]:
    """Marker, line and colour of the i-th arm; from the ninth on the markers are open."""
    colour = COLOURS[i % len(COLOURS)]
    face = colour if i < len(MARKERS) else "white"
    marker, line = MARKERS[i % len(MARKERS)], LINES[i % len(LINES)]
    return {"marker": marker, "linestyle": line, "color": colour, "markerfacecolor": face}


def number(value: float | None) -> str:
    """A number in an alternative text."""
    return "not told" if value is None else f"{value:.2g}"
