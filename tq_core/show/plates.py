"""Figures on an opaque white plate, readable in a light and a dark page, as SVG or PNG.

``matplotlib.figure.Figure`` is used directly: pyplot keeps every figure it makes. A panel builds its
figure once and moves its artists, which is several times faster than drawing a new one.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG, RendererSVG
from matplotlib.figure import Figure
from PIL import Image

# Colour-blind safe (Okabe and Ito 2008); a marker and a line style repeat what the colour says.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    {"color": "#007A58", "marker": "^", "linestyle": "-."},
    {"color": "#A3478C", "marker": "D", "linestyle": ":"},
    {"color": "#222222", "marker": "v", "linestyle": "-"},
    {"color": "#8A5A00", "marker": "P", "linestyle": (0, (5, 1, 1, 1))},
)
GREY = "#666666"
_RC = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "lines.markersize": 5,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
}
PNG_DPI = 110
PNG_BYTES = 40_000


# matplotlib's settings belong to the process, and JupyterLab hands a slider's move to another thread than a cell's.
_DRAWS = threading.RLock()


@contextlib.contextmanager
def _drawing(settings: dict[str, Any]) -> Iterator[None]:
    with _DRAWS, matplotlib.rc_context(settings):
        yield


def plate(
    width: float = 7.6, height: float = 3.0, columns: int = 1, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """A figure of ``width`` x ``height`` inches and its axes, row by row."""
    with _drawing(_RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def _svg_settings(salt: str) -> dict[str, Any]:
    return {**_RC, "svg.hashsalt": salt, "svg.fonttype": "none"}


def _labelled(svg_text: str, alt: str | None) -> str:
    """Only the <svg> element, as wide as its place allows, with a text alternative; None: hidden from screen readers."""
    text = svg_text[svg_text.index("<svg") :]
    name = 'aria-hidden="true"' if alt is None else f'role="img" aria-label={quoteattr(alt, {chr(10): " "})}'
    return text.replace("<svg", f'<svg {name} style="max-width:100%;height:auto;display:block"', 1)


def _plain_svg(figure: Figure, salt: str) -> str:
    buffer = io.StringIO()
    with _drawing(_svg_settings(salt)):
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def svg(figure: Figure, alt: str, salt: str = "tq") -> str:
    """The figure as an <svg> element with a text alternative; ``salt`` keeps its ids apart from others'."""
    return _labelled(_plain_svg(figure, salt), alt)


class LiveSvg:
    """A figure in two layers of the same size: what stands still, drawn once, and what moves, drawn for each frame.

    A frame then costs the drawing, the sending and the parsing of ``moving`` alone. Their axes must keep their limits.
    """

    def __init__(self, figure: Figure, moving: Sequence[Artist], salt: str) -> None:
        self._figure, self._moving, self._salt = figure, tuple(moving), salt
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # a frame must not shift, nor solve the layout again
        visible = [artist.get_visible() for artist in self._moving]
        for artist in self._moving:
            artist.set_visible(False)
        self.still = _labelled(_plain_svg(figure, salt), None)
        for artist, was in zip(self._moving, visible, strict=True):
            artist.set_visible(was)

    def frame(self, alt: str) -> str:
        """The moving artists as they are now: a transparent <svg> element to lie on ``still``, named ``alt``."""
        buffer = io.StringIO()
        width, height = (72 * inches for inches in self._figure.get_size_inches())
        dpi, self._figure.dpi = self._figure.dpi, 72
        try:
            with _drawing(_svg_settings(self._salt + "-moving")):
                renderer = RendererSVG(width, height, buffer, metadata={"Date": None, "Creator": None})
                for artist in sorted(self._moving, key=lambda a: a.get_zorder()):
                    artist.draw(renderer)
                renderer.finalize()
        finally:
            self._figure.dpi = dpi
        return _labelled(buffer.getvalue(), alt)


def png(figure: Figure) -> bytes:
    """The figure as a PNG file whose bytes do not name the software that wrote it.

    One that would take a large share of a notebook has a palette of 64 colours instead of all.
    """
    buffer = io.BytesIO()
    with _drawing(_RC):
        figure.savefig(buffer, format="png", dpi=PNG_DPI, metadata={"Software": None})
    if buffer.tell() <= PNG_BYTES:
        return buffer.getvalue()
    small = io.BytesIO()
    with Image.open(buffer) as picture:
        picture.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()
