"""The Pareto plot: mean next-token KL against all-in bits, with intervals; nothing is computed here.

Arms differ by marker, filled or open, and by line style as well as by colour; the frontier is a heavy line whose points
bear their names, and the table beside it has every number. The plate is opaque white, so it is readable in a dark page too.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from tq_core.show import plates
from validation.figures import COLOURS, LINES, Figure, render

MOST_BITS = 5.5  # rows beyond it are in the table only; they would press the others together
FLOOR = 1e-7
SHAPES = "os^Dv<>pP*Xh"
LABEL_OFFSET = (-6, -12)  # points: nothing lies below and left of the frontier


def styles(count: int) -> list[dict[str, Any]]:
    """Looks of ``count`` arms: the shape changes fastest, then filled or open; no colour is needed to tell 24 apart."""
    found = []
    for (line, filled, shape), i in zip(product(LINES, (False, True), SHAPES), range(count), strict=False):
        colour = COLOURS[i % (len(COLOURS) - 1)]  # without the palest
        face = colour if filled else "white"
        found.append({"color": colour, "marker": shape, "linestyle": line, "markerfacecolor": face})
    return found


def draw_pareto(axes: Any, result: dict[str, Any]) -> None:
    """Put the plot on ``axes``: one line per arm over its rates, error bars where there is an interval."""
    from matplotlib import patheffects

    shown, best, _ = _rows(result)
    arms = list(dict.fromkeys(r["codec"] for r in shown))
    for arm, look in zip(arms, styles(len(arms)), strict=True):
        mine = [r for r in shown if r["codec"] == arm]
        x, y = [r["bits_all_in"] for r in mine], [_height(r) for r in mine]
        axes.plot(x, y, label=arm, markersize=5.5, linewidth=0.7, **look)
        for r in mine:
            if r["kl_ci95"]:
                low, high = (max(v, FLOOR) for v in r["kl_ci95"])
                axes.vlines(r["bits_all_in"], low, high, color=look["color"], linewidth=0.6, alpha=0.6)
    line = [r["bits_all_in"] for r in best], [_height(r) for r in best]
    axes.plot(*line, color="#222222", linewidth=4, alpha=0.3, label="frontier", zorder=1)
    halo = [patheffects.withStroke(linewidth=2.5, foreground="white")]
    for r in best:
        axes.annotate(
            r["label"],
            (r["bits_all_in"], _height(r)),
            xytext=LABEL_OFFSET,
            textcoords="offset points",
            ha="right",
            fontsize=7.5,
            path_effects=halo,
            zorder=5,
        )
    axes.set(
        yscale="log",
        xlabel="all-in bits per channel in full pages, keys and values",
        ylabel="mean next-token KL, nats",
    )
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=7.5, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


def _rows(result: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    shown = [r for r in result["rows"] if r["bits_all_in"] <= MOST_BITS]
    return (
        shown,
        [r for r in shown if r["pareto"]],
        [r for r in result["rows"] if r["bits_all_in"] > MOST_BITS],
    )


def _height(row: dict[str, Any]) -> float:
    return max(float(row["kl_mean"]), FLOOR)


def pareto_words(result: dict[str, Any]) -> str:
    """What the plot shows, for a reader who does not see it."""
    shown, best, beyond = _rows(result)
    words = "; ".join(f"{r['label']} {r['kl_mean']:.2g} nats at {r['bits_all_in']:.2f} bits" for r in best)
    return (
        f"Scatter of mean next-token KL, logarithmic, over all-in bits per channel up to {MOST_BITS:g} for "
        f"{len({r['codec'] for r in shown})} arms on {result['model']['name']}. The frontier, from few bits to many: "
        f"{words}. {len(beyond)} rows beyond {MOST_BITS:g} bits are in the table."
    )


def pareto_table(result: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of the numbers that the plot draws, and of the rows beyond it."""
    columns = ["arm", "bits", "KL", "95 % from", "95 % to", "frontier"]
    shown, _, beyond = _rows(result)
    return columns, [
        [r["label"], r["bits_all_in"], r["kl_mean"], *(r["kl_ci95"] or [None, None]), r["pareto"]]
        for r in (*shown, *beyond)
    ]


def pareto_plate(result: dict[str, Any]) -> Any:
    """The plot as a matplotlib figure, for a notebook."""
    figure, (axes,) = plates.plate(8.8, 5.8)
    draw_pareto(axes, result)
    return figure


def pareto(result: dict[str, Any], name: str = "pareto") -> Figure:
    """The plot as SVG with its words and numbers."""
    image = render(name, (9.5, 6.6), lambda axes: draw_pareto(axes, result))
    return Figure(
        name, "Next-token KL against all-in bits", pareto_words(result), *pareto_table(result), image
    )
