"""The family tree as a picture: rows are kinds of methods, columns are years, arrows say what built on what."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from tq_core.show import plates
from validation.pages.family import LANES, Method, alt, methods

COLUMNS = ("to 2023", "2024", "2025", "2026", "software")
Place = tuple[float, float]
WIDTH, HEIGHT, STEP_X, STEP_Y = 1.62, 0.42, 2.2, 0.62


def column(method: Method) -> int:
    """The column of a method: its year, or the last for software."""
    return len(COLUMNS) - 1 if method.year is None else max(0, method.year - 2023)


def places() -> tuple[dict[str, Place], dict[str, Place]]:
    """Centres of the boxes by name, and (top, bottom) of the lanes; y grows downwards."""
    centres: dict[str, Place] = {}
    lanes: dict[str, Place] = {}
    top = 0.0
    for lane in LANES:
        here = [m for m in methods() if m.lane == lane]
        for m in here:
            centres[m.name] = (column(m) * STEP_X, top + (m.row + 0.5) * STEP_Y)
        end = top + (max(m.row for m in here) + 1) * STEP_Y
        lanes[lane], top = (top, end), end + 0.25
    return centres, lanes


def svg() -> str:
    """The picture as an <svg> element with its text alternative."""
    centres, lanes = places()
    figure, (axes,) = plates.plate(11.6, 7.2)
    axes.set_axis_off()
    bottom = max(end for _, end in lanes.values())
    axes.set(xlim=(-2.5, (len(COLUMNS) - 1) * STEP_X + 1.0), ylim=(bottom + 0.1, -0.75))
    for i, name in enumerate(COLUMNS):
        axes.text(i * STEP_X, -0.5, name, ha="center", va="center", fontsize=9.5, weight="bold")
    for lane, (top, end) in lanes.items():
        axes.axhspan(top - 0.08, end + 0.08, color="#f2f2f2", zorder=0)
        axes.text(-2.4, (top + end) / 2, fill(lane, 12), va="center", fontsize=9.5, weight="bold")
    for name, (x, y) in centres.items():
        corner = (x - WIDTH / 2, y - HEIGHT / 2)
        box = FancyBboxPatch(corner, WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.08", zorder=3)
        box.set(facecolor="white", edgecolor="#222222", linewidth=2.2 if name == "this workbook" else 1.0)
        axes.add_patch(box)
        axes.text(x, y, name, ha="center", va="center", fontsize=8.2, zorder=4)
    for m in methods():
        for tie in m.ties:
            _arrow(axes, centres, tie.of, m.name, tie.kind == "builds on")
    return plates.svg(figure, alt(), salt="family")


def _between(centres: Mapping[str, Place], start: Place, end: Place) -> bool:
    """Whether another box stands between two in one column."""
    low, high = sorted((start[1], end[1]))
    return any(x == start[0] and low < y < high for x, y in centres.values())


def _arrow(axes: Axes, centres: Mapping[str, Place], old: str, new: str, solid: bool) -> None:
    """From side to side between columns, from edge to edge within one, bowed around a box between."""
    (x0, y0), (x1, y1) = start, end = centres[old], centres[new]
    bend, down = "arc3,rad=0", 1 if y1 > y0 else -1
    if x0 != x1:
        points = ((x0 + WIDTH / 2, y0), (x1 - WIDTH / 2, y1))
    elif _between(centres, start, end):
        points, bend = ((x0 + WIDTH / 2, y0), (x1 + WIDTH / 2, y1)), f"arc3,rad={-0.3 * down}"
    else:
        points = ((x0, y0 + down * HEIGHT / 2), (x1, y1 - down * HEIGHT / 2))
    arrow = FancyArrowPatch(*points, arrowstyle="-|>", mutation_scale=10, connectionstyle=bend, zorder=2)
    arrow.set(linestyle="-" if solid else (0, (4, 3)), color="#0072B2" if solid else "#8a4a00", linewidth=1.3)
    axes.add_patch(arrow)
