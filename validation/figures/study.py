"""Figures of a study: losses against their budgets, KL per workload, and how long replies stay the same.

Nothing is computed here but the share of a budget, which puts losses of different units on one axis.
"""

from __future__ import annotations

from typing import Any

from validation.figures.plate import COLOURS, Figure, look, number, render

KL = "kl_mean"
FLOOR = 1e-6  # nats
LEAST, MOST = -1.0, 3.0  # shares of a budget; what lies beyond is drawn as an arrow with its number
SHAPES = {"pass": "o", "fail": "X", "not exercised": "s"}
TINTS = {"pass": COLOURS[0], "fail": COLOURS[1], "not exercised": "#555555"}


def decisions(record: dict[str, Any]) -> Figure:
    """Forest plot: each loss and the bound of its interval as shares of the budget, which is the line at 1."""
    rows = [d for d in record["decisions"] if d["loss"] is not None and d["budget"]]

    def within(value: float) -> float:
        return min(max(value, LEAST), MOST)

    def draw(axes: Any) -> None:
        for y, d in enumerate(rows):
            loss = d["loss"] / d["budget"]
            bound = loss if d["bound"] is None else d["bound"] / d["budget"]
            tint = TINTS[d["status"]]
            axes.plot([within(loss), within(bound)], [y, y], color=tint, linewidth=2, zorder=2)
            axes.plot(within(bound), y, marker="|", color=tint, markersize=12, markeredgewidth=2, zorder=3)
            face = "white" if d["status"] == "not exercised" else tint
            axes.plot(within(loss), y, marker=SHAPES[d["status"]], color=tint, markerfacecolor=face, markersize=8, zorder=4)  # fmt: skip
            if bound > MOST:
                axes.annotate(
                    f"bound {bound:.3g} \u2192", (MOST, y), (-4, 7), textcoords="offset points", ha="right"
                )
            if loss < LEAST:
                axes.annotate(f"\u2190 {loss:.3g}", (LEAST, y), (4, 7), textcoords="offset points", ha="left")
        axes.axvline(1, color="black", linestyle="--", linewidth=1.2)
        axes.axvline(0, color="black", linewidth=0.6)
        axes.annotate(
            "budget", (1, 1), (3, 2), xycoords=("data", "axes fraction"), textcoords="offset points"
        )
        for status, shape in SHAPES.items():
            face = "white" if status == "not exercised" else TINTS[status]
            axes.plot([], [], shape, color=TINTS[status], markerfacecolor=face, label=status)
        axes.set(
            xlim=(LEAST - 0.1, MOST + 0.1),
            ylim=(len(rows) - 0.4, -0.8),
            xlabel="loss as a share of its budget; the bar ends at the bound",
            yticks=range(len(rows)),
        )
        axes.set_yticklabels([f"{d['workload']}: {d['metric']}, {d['arm']}" for d in rows])
        axes.grid(True, axis="x", alpha=0.3)
        axes.figure.legend(loc="outside lower center", ncols=3, fontsize=8)

    told = "; ".join(
        f"{d['workload']} {d['metric']} {d['arm']}: loss {number(d['loss'])}, bound {number(d['bound'])}, budget {number(d['budget'])} {d['unit']}, {d['status']}"
        for d in rows
    )
    alt = f"Forest plot of losses and the bounds of their intervals against the budgets of the study. {told}."
    columns = ["decision", "loss", "bound", "budget", "unit", "verdict"]
    table = [
        [f"{d['workload']}: {d['metric']}, {d['arm']}", *(d[c] for c in ("loss", "bound", "budget", "unit", "status"))]
        for d in rows
    ]  # fmt: skip
    picture = render("decisions", (7, 1.5 + 0.36 * len(rows)), draw)
    return Figure("decisions", "Losses against their budgets", alt, columns, table, picture)


def _kl_of(arm: dict[str, Any]) -> dict[str, Any] | None:
    return next((m for m in arm["metrics"] if m["metric"] == KL and m["value"] is not None), None)


def workload_kl(record: dict[str, Any]) -> Figure:
    """Mean next-token KL of each arm on each workload, with its interval."""
    workloads = record["workloads"]
    arms = list(dict.fromkeys(a["arm"] for w in workloads for a in w["arms"]))
    rows = []
    for w in workloads:
        for a in w["arms"]:
            found = _kl_of(a)
            if found is not None:
                ends = found["interval"] or {"low": None, "high": None}
                rows.append([w["name"], a["arm"], found["value"], ends["low"], ends["high"]])
    names = [w["name"] for w in workloads]

    def draw(axes: Any) -> None:
        step = 0.6 / max(len(arms), 1)
        for i, arm in enumerate(arms):
            style = {**look(i), "linestyle": "none"}
            mine = [r for r in rows if r[1] == arm]
            heights = [names.index(r[0]) + (i - (len(arms) - 1) / 2) * step for r in mine]
            axes.plot([max(r[2], FLOOR) for r in mine], heights, label=arm, **style)
            for r, y in zip(mine, heights):
                if r[3] is not None and r[4] is not None:
                    axes.hlines(y, max(r[3], FLOOR), max(r[4], FLOOR), color=style["color"], linewidth=1.5)
        axes.set(
            xscale="log",
            xlabel=f"mean next-token KL in nats, logarithmic (below {FLOOR:g} drawn there)",
            yticks=range(len(names)),
            ylim=(len(names) - 0.5, -0.5),
        )
        axes.set_yticklabels(names)
        axes.grid(True, axis="x", alpha=0.3)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)

    told = "; ".join(f"{r[0]}, {r[1]}: {r[2]:.2g}" for r in rows)
    alt = f"Dot plot of the mean next-token KL in nats per workload and arm, with intervals as bars. {told}."
    columns = ["workload", "arm", "mean KL, nats", "from", "to"]
    picture = render("workload-kl", (7, 1.2 + len(names) * max(0.4, 0.16 * len(arms))), draw)
    return Figure("workload-kl", "Mean KL per workload and arm", alt, columns, rows, picture)


def survival(record: dict[str, Any], workload: str) -> Figure:
    """Share of the replies to one workload that are still the reference's, token by token."""
    lines = [t for t in record["trajectories"] if t["workload"] == workload and t["survival"]]
    labels = [f"{t['arm']}, {t['sampler']}" for t in lines]

    def draw(axes: Any) -> None:
        for i, (t, label) in enumerate(zip(lines, labels)):
            tokens, shares = zip(*t["survival"])
            every = max(len(tokens) // 8, 1)
            axes.plot(tokens, shares, label=label, drawstyle="steps-post", markevery=every, **look(i))
        axes.set(xlabel="tokens of the reply", ylabel="share still the same", ylim=(-0.03, 1.03))
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)

    told = "; ".join(
        f"{label}: {t['identical']} of {t['prompts']} replies the same to the end, median first difference {number(t['first_difference_median'])}"
        for t, label in zip(lines, labels)
    )
    alt = f"Step chart of the share of replies that are still the reference's over the tokens of the reply. {told}."
    points = sorted({token for t in lines for token, _ in t["survival"]})
    known = [dict(map(tuple, t["survival"])) for t in lines]
    table = [[token, *(k.get(token) for k in known)] for token in points]
    name = f"survival-{workload}"
    title = f"{workload}: how long replies stay the same"
    return Figure(name, title, alt, ["token", *labels], table, render(name, (7, 3.0), draw))
