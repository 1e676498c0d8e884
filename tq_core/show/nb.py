"""What a notebook calls: ``from tq_core.show import nb`` and ``nb.setup()``.

nb.show(figure, alt=...)       a figure, its description and its numbers
nb.curve(x, series, ...)       lines over a common x, with their table
nb.table(columns, rows)        a small table
nb.panel(view)                 sliders that drive a view (tq_core.show.panel)
nb.Progress()                  how far a long cell is
nb.claims(measured=[...])      the closing list: measured, calculated, papers
"""

from __future__ import annotations

import os
import sys
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from IPython.display import display
from matplotlib.figure import Figure

from tq_core.errors import ValueRangeError, check
from tq_core.show import figures, html, plates
from tq_core.show.panel import Panel, View

LIVE = "tq_live"  # nbtools.normalise drops the text/html of an output that carries this
FAST_VARIABLE = "TQ_NOTEBOOK_FAST"
COMPILE_SECONDS = 600
_panels: dict[str, Panel] = {}


def setup() -> None:
    """Prepare a notebook; running it twice is harmless."""
    np.set_printoptions(precision=4, suppress=True, linewidth=100, threshold=64)
    # A kernel's first call is compiled with Python's lock held, longer than ipykernel waits before it complains on stderr.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "flush_timeout"):
            stream.flush_timeout = COMPILE_SECONDS


def fast() -> bool:
    """Whether $TQ_NOTEBOOK_FAST asks for reduced sizes, as CI does."""
    return os.environ.get(FAST_VARIABLE, "") not in ("", "0")


def _picture(figure: Figure, alt: str) -> dict[str, str]:
    return {"image/png": b64encode(plates.png(figure)).decode(), "text/plain": alt}


def _words(alt: str, columns: Sequence[str], rows: Sequence[html.Row]) -> None:
    numbers = html.table(columns, rows) if rows else ""
    body = html.details("The figure in words and numbers", html.paragraph(alt) + numbers)
    text = alt + ("\n" + html.text_table(columns, rows) if rows else "")
    display({"text/html": body, "text/plain": text}, raw=True)


def show(figure: Figure, alt: str, columns: Sequence[str] = (), rows: Sequence[html.Row] = ()) -> None:
    """Display a figure, then what it shows in words with a small table of its numbers, folded.

    ``alt`` says what a reader who does not see the figure must know.
    """
    check(
        len(alt.split()) >= 5, "alt", "a sentence that says what the figure shows", repr(alt), ValueRangeError
    )
    bundle = {**_picture(figure, alt), "text/html": plates.svg(figure, alt, salt=alt)}
    display(bundle, raw=True, metadata={"image/png": {"alt": alt}, LIVE: True})
    _words(alt, columns, rows)


def table(columns: Sequence[str], rows: Sequence[html.Row], caption: str = "") -> None:
    """Display a small table."""
    bundle = {"text/html": html.table(columns, rows, caption), "text/plain": html.text_table(columns, rows)}
    display(bundle, raw=True)


def panel(view: View) -> Panel:
    """Display a view with its sliders; a reader without a kernel sees the figure at its defaults.

    Running the cell again closes the panel it made before.
    """
    key = type(view).__name__
    if key in _panels:
        _panels.pop(key).close()
    made = _panels[key] = Panel(view)
    columns, rows = made.preset_table()
    alt = made.alt
    bundle: dict[str, Any] = {**made.widget._repr_mimebundle_(), **_picture(view.figure, alt)}
    display(bundle, raw=True, metadata={"image/png": {"alt": alt}})
    _words(alt, columns, rows)
    return made


def curve(
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    labels: tuple[str, str],
    alt: str,
    form: str = ".3f",
    **options: Any,
) -> None:
    """Lines over a common x with their numbers: ``labels`` name both axes with units, ``form`` formats the table.

    ``options`` go to figures.lines.
    """
    figure = figures.lines(x, series, *labels, **options)
    rows = [[name, *[format(value, form) for value in values]] for name, values in series.items()]
    show(figure, alt, [labels[0], *[f"{value:g}" for value in x]], rows)


def claims(
    measured: Sequence[str] = (), calculated: Sequence[str] = (), papers: Mapping[str, str] | None = None
) -> None:
    """Display what the notebook claims and how each claim is known; ``papers`` maps a source to its claim."""
    rows = [("measured", text) for text in measured] + [("calculated", text) for text in calculated]
    rows += [(f"paper: {source}", text) for source, text in (papers or {}).items()]
    check(bool(rows), "claims", "at least one", "none", ValueRangeError)
    table(("how we know", "claim"), rows, "Claims of this notebook")


class Progress:
    """One line that tells how far a long cell is; call it with what is done, how much, of how much."""

    EVERY = 0.5  # seconds between two updates, so that reporting costs nothing

    def __init__(self) -> None:
        self._handle = display({"text/plain": "starting"}, raw=True, display_id=True)
        self._last = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and now - self._last < self.EVERY:
            return
        self._last = now
        if self._handle is not None:
            self._handle.update({"text/plain": f"{what}: {done} of {total}"}, raw=True)


def not_exercised(what: str, reason: str) -> None:
    """Say in the page that something was left out, and why."""
    print(f"NOT EXERCISED: {what}: {reason}")
