"""The notebooks' static figures: arrays in, a Figure out; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from tq_core.show import plates


def lines(
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    log: bool = False,
    log_x: bool = False,
    title: str = "",
) -> Figure:
    """One line per series over the same x, each with its own colour, marker and line style."""
    figure, (axes,) = plates.plate(6.4, 3.2)
    for (name, y), style in zip(series.items(), plates.STYLES * 2, strict=False):
        axes.plot(x, y, label=name, **style)
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    if log:
        axes.set_yscale("log")
    if log_x:
        axes.set_xscale("log", base=2)
    axes.set_xticks(list(x), [f"{v:g}" for v in x])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.legend(frameon=False)
    return figure


def two_histograms(before: np.ndarray, after: np.ndarray, titles: tuple[str, str], xlabel: str) -> Figure:
    """Histograms of standardised values beside each other, with the normal density over both."""
    figure, axes = plates.plate(7.6, 2.8, columns=2)
    grid = np.linspace(-5, 5, 201)
    for ax, values, title in zip(axes, (before, after), titles, strict=True):
        ax.hist(np.clip(values.ravel(), -5, 5), 80, density=True, color="#8fb8d8", edgecolor="none")
        ax.plot(
            grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color="#222222", linestyle="--", label="N(0,1)"
        )
        ax.set(xlabel=xlabel, ylabel="density", title=title)
        ax.legend(frameon=False)
    return figure


def scatter(x: np.ndarray, series: Mapping[str, np.ndarray], xlabel: str, ylabel: str) -> Figure:
    """Points of one or more series against the same x, with the diagonal."""
    figure, (axes,) = plates.plate(5.0, 3.4)
    ends = (float(x.min()), float(x.max()))
    axes.plot(ends, ends, color=plates.GREY, linewidth=1)
    for (name, y), style, marker in zip(series.items(), plates.STYLES, "ox^Dv", strict=False):
        axes.plot(x, y, marker, color=style["color"], markersize=4, fillstyle="none", label=name)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend(frameon=False)
    return figure


def bars(names: Sequence[str], values: Sequence[float], xlabel: str) -> Figure:
    """Horizontal bars, the first name on top, each with its number."""
    figure, (axes,) = plates.plate(6.8, 0.75 + 0.3 * len(names))
    positions = np.arange(len(names))[::-1]
    axes.barh(positions, values, color="#5b9bd5", edgecolor="#1f4e79")
    axes.set_yticks(positions, names)
    axes.set(xlabel=xlabel)
    for at, value in zip(positions, values, strict=True):
        axes.annotate(f" {value:.4g}", (value, at), va="center")
    axes.margins(x=0.15)
    axes.grid(axis="y", visible=False)
    return figure


HATCHES = ("", "///", "...", "xx", "\\\\\\", "++")


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def rungs(names: Sequence[str], values: Sequence[float], xlabel: str, roof: float, roof_label: str) -> Figure:
    """Horizontal bars on a logarithmic axis, the first name on top, each with its number; a dashed line at ``roof``."""
    figure, (axes,) = plates.plate(7.2, 1.0 + 0.3 * len(names))
    positions = np.arange(len(names))[::-1]
    lowest = min(roof, *values) / 2
    axes.barh(positions, np.asarray(values) - lowest, left=lowest, color="#8fb8d8", edgecolor="#1f4e79")
    axes.set_xscale("log")
    axes.set(xlim=(lowest, 4 * max(values)), xlabel=xlabel)
    axes.set_yticks(positions, names)
    axes.axvline(roof, color="#222222", linestyle="--", label=roof_label)
    for at, value in zip(positions, values, strict=True):
        axes.annotate(f" {_short(value)}", (value, at), va="center")
    axes.legend(loc="lower right")
    axes.grid(axis="y", visible=False)
    return figure


def stacked(bars: Mapping[str, Mapping[str, float]], xlabel: str) -> Figure:
    """Horizontal bars made of parts in a common order; a part has its own hatch, a bar its total in numbers."""
    figure, (axes,) = plates.plate(7.2, 1.5 + 0.4 * len(bars))
    positions = np.arange(len(bars))[::-1]
    starts = np.zeros(len(bars))
    for i, part in enumerate(dict.fromkeys(name for parts in bars.values() for name in parts)):
        widths = np.array([parts.get(part, 0.0) for parts in bars.values()])
        look = {
            "color": plates.STYLES[i % len(plates.STYLES)]["color"],
            "alpha": 0.55,
            "hatch": HATCHES[i % len(HATCHES)],
        }
        axes.barh(positions, widths, left=starts, label=part, edgecolor="#222222", **look)
        starts += widths
    for at, total in zip(positions, starts, strict=True):
        axes.annotate(f" {_short(total)}", (total, at), va="center")
    axes.set_yticks(positions, list(bars))
    axes.set(xlabel=xlabel)
    axes.set_xlim(0, 1.12 * starts.max())
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside upper center", ncols=4)
    return figure
