"""The Pareto plot: mean next-token KL against all-in bits, with intervals; nothing is computed here.

Arms differ by marker and line style as well as by colour, the frontier is a heavy line whose points bear their names,
and the table beside it has every number. The plate is opaque white, so it is readable in a dark page too.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from validation.figures import COLOURS, LINES, MARKERS, Figure, render

MOST_BITS = 9.0  # beyond it lies float16 alone
FLOOR = 1e-7


def pareto(result: dict[str, Any], name: str = "pareto") -> Figure:
    """One line per arm over its rates, error bars where there is an interval, the frontier named."""
    rows = [r for r in result["rows"] if r["bits_all_in"] <= MOST_BITS]
    arms = list(dict.fromkeys(r["codec"] for r in rows))
    # Marker changes fastest and the line style next: 32 arms differ without colour.
    styles = [(m, line) for line, m in product(LINES, MARKERS)]

    def draw(axes: Any) -> None:
        for i, arm in enumerate(arms):
            mine = [r for r in rows if r["codec"] == arm]
            marker, line = styles[i % len(styles)]
            look = {"color": COLOURS[i % len(COLOURS)], "marker": marker, "linestyle": line}
            x, y = [r["bits_all_in"] for r in mine], [max(r["kl_mean"], FLOOR) for r in mine]
            axes.plot(x, y, label=arm, markersize=4.5, linewidth=0.8, markerfacecolor="none", **look)
            for r, at in zip(mine, y, strict=True):
                if r["kl_ci95"]:
                    low, high = (max(v, FLOOR) for v in r["kl_ci95"])
                    axes.vlines(r["bits_all_in"], low, max(high, at), color=look["color"], linewidth=0.7)
        best = [r for r in rows if r["pareto"]]
        axes.plot(
            [r["bits_all_in"] for r in best],
            [max(r["kl_mean"], FLOOR) for r in best],
            color="#222222",
            linewidth=2.2,
            alpha=0.45,
            label="frontier",
            zorder=1,
        )
        for r in best:
            axes.annotate(
                r["label"],
                (r["bits_all_in"], max(r["kl_mean"], FLOOR)),
                xytext=(-4, -9),
                textcoords="offset points",
                ha="right",
                fontsize=7,
            )
        axes.set(
            yscale="log",
            xlabel="all-in bits per channel in full pages, keys and values",
            ylabel="mean next-token KL, nats",
        )
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=7, ncols=1, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)

    best = [r for r in rows if r["pareto"]]
    words = "; ".join(f"{r['label']} {r['kl_mean']:.2g} nats at {r['bits_all_in']:.2f} bits" for r in best)
    alt = (
        f"Scatter of mean next-token KL, logarithmic, over all-in bits per channel for {len(arms)} arms on "
        f"{result['model']['name']}. The frontier, from few bits to many: {words}."
    )
    columns = ["arm", "bits", "KL", "95 % from", "95 % to", "frontier"]
    table = [
        [r["label"], r["bits_all_in"], r["kl_mean"], *(r["kl_ci95"] or [None, None]), r["pareto"]]
        for r in rows
    ]
    return Figure(
        name, "Next-token KL against all-in bits", alt, columns, table, render(name, (9.5, 6.0), draw)
    )
