"""Figures of a sweep: loss against all-in bits, one line per arm and policy, with intervals; nothing is computed here.

Lines differ by marker, filled or open, and by dashes as well as by colour; the table beside a figure has its numbers.
"""

from __future__ import annotations

from typing import Any

from validation.compare.figures import styles
from validation.figures import Figure, render
from validation.sweep.result import Result, metric_of

MOST_SERIES = 24  # as many looks can be told apart; more are in the table only
LEGEND_BELOW = 6


def _series(rows: list[dict[str, Any]], metric: str) -> dict[str, list[dict[str, Any]]]:
    """series -> points by bits, those with a loss."""
    found: dict[str, list[dict[str, Any]]] = {}
    for r in rows:
        m = metric_of(r, metric)
        if m["loss"] is not None:
            found.setdefault(r["series"], []).append({**m, "label": r["label"], "bits": r["bits_all_in"]})
    return {name: sorted(points, key=lambda p: (p["bits"], p["label"])) for name, points in found.items()}


def _draw(axes: Any, shown: dict[str, list[dict[str, Any]]], about: dict[str, Any]) -> None:
    every = [p for points in shown.values() for p in points]
    logarithmic = all(p["loss"] > 0 for p in every)
    floor = min((p["loss"] for p in every), default=1.0) / 10 if logarithmic else None
    for (name, points), look in zip(shown.items(), styles(len(shown)), strict=True):
        axes.plot(
            [p["bits"] for p in points],
            [p["loss"] for p in points],
            label=name,
            markersize=6,
            linewidth=1,
            **look,
        )
        for p in points:
            if p["low"] is not None:
                low = p["low"] if floor is None else max(p["low"], floor)
                axes.vlines(p["bits"], low, max(p["high"], low), color=look["color"], linewidth=1, alpha=0.7)
    axes.set(
        yscale="log" if logarithmic else "linear",
        xlabel="all-in bits per channel in full pages, keys and values",
        ylabel=f"loss: {about['title']}\n({about['unit']})",
    )
    axes.grid(True, alpha=0.3)
    if len(shown) > LEGEND_BELOW:
        axes.legend(fontsize=7.5, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    else:
        axes.legend(fontsize=8)


def _words(
    shown: dict[str, list[dict[str, Any]]], left: int, w: dict[str, Any], about: dict[str, Any]
) -> str:
    told = {
        name: ", ".join(f"{p['loss']:.2g} at {p['bits']:.2f} bits" for p in points)
        for name, points in shown.items()
    }
    lines = "; ".join(f"{name}: {words}" for name, words in told.items())
    rest = f" {left} more lines are in the table." if left else ""
    return (
        f"Loss ({about['title']}, {about['unit']}) over all-in bits per channel on {w['model']}, {w['name']} of "
        f"{w['tokens']} tokens, one line per arm and policy. {lines}.{rest}"
    )


def figures(result: Result) -> list[Figure]:
    """One figure for every model, workload and metric that has a point."""
    found = []
    for w in result["workloads"]:
        where = (w["model"], w["name"], w["tokens"])
        rows = [r for r in result["rows"] if (r["model"], r["workload"], r["tokens"]) == where]
        for about in result["metrics"]:
            every = _series(rows, about["name"])
            if every:
                found.append(_figure(every, w, about, result["sweep"]["confidence"]))
    return found


def _figure(every: dict[str, Any], w: dict[str, Any], about: dict[str, Any], level: float) -> Figure:
    shown = dict(list(every.items())[:MOST_SERIES])
    plain = "".join(
        c if c.isalnum() else "-" for c in f"{w['model']}-{w['name']}-{w['tokens']}-{about['name']}"
    )
    name = f"sweep-{plain.strip('-')}"
    image = render(
        name, (9.5 if len(shown) > LEGEND_BELOW else 7.5, 4.6), lambda axes: _draw(axes, shown, about)
    )
    columns = ["point", "bits all-in", "loss", f"{100 * level:g} % from", "to", "prompts"]
    rows = [
        [p["label"], p["bits"], p["loss"], p["low"], p["high"], p["n"]]
        for points in every.values()
        for p in points
    ]
    title = f"{about['title']}: {w['model']}, {w['name']} of {w['tokens']} tokens"
    return Figure(name, title, _words(shown, len(every) - len(shown), w, about), columns, rows, image)
