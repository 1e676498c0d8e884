"""Figures of the report: SVG without a clock or random ids, each with alternative text and its data as a table.

Arms differ by marker, line style and hatching as well as by colour. Nothing is computed here.
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


def kl_quantiles(record: dict[str, Any]) -> Figure:
    """KL at which share of the tokens, one line per arm."""
    data = record["quality"]["kl_quantiles"]
    shares, arms = data["shares"], data["arms"]
    floor = 1e-6

    def draw(axes: Any) -> None:
        for i, (name, values) in enumerate(arms.items()):
            shown = [max(v, floor) for v in values]
            axes.plot(shown, shares, marker=MARKERS[i], linestyle=LINES[i % 4], color=COLOURS[i], label=name)
        axes.set(
            xscale="log",
            xlabel=f"next-token KL in nats (below {floor:g} drawn there)",
            ylabel="share of scored tokens at or below",
        )
        axes.grid(True, alpha=0.3)
        axes.legend()

    ends = "; ".join(
        f"{n}: median {v[shares.index(0.5)]:.2g}, 99 % {v[shares.index(0.99)]:.2g}, largest {v[-1]:.2g} nats"
        for n, v in arms.items()
    )
    alt = f"Line chart of the cumulative share of scored tokens over their next-token KL, logarithmic, one line per arm. {ends}."
    rows = [[s, *(v[i] for v in arms.values())] for i, s in enumerate(shares)]
    return Figure(
        "kl-quantiles",
        "Next-token KL over the scored tokens",
        alt,
        ["share of tokens", *arms],
        rows,
        render("kl-quantiles", (7, 3.6), draw),
    )


def kl_documents(record: dict[str, Any]) -> Figure:
    """Mean KL of each document, one marker per arm."""
    documents = record["quality"]["documents"]
    arms = list(record["quality"]["arms"])
    names = [d["document"] for d in documents]

    def draw(axes: Any) -> None:
        for i, arm in enumerate(arms):
            values = [d["arms"][arm]["kl_mean"] for d in documents]
            axes.plot(
                values,
                range(len(names)),
                MARKERS[i],
                color=COLOURS[i],
                label=arm,
                markerfacecolor="none" if i else COLOURS[i],
            )
        axes.set(yticks=range(len(names)), xlabel="mean next-token KL in nats", xlim=(0, None))
        axes.set_yticklabels(names)
        axes.invert_yaxis()
        axes.grid(True, axis="x", alpha=0.3)
        axes.legend()

    worst = max(documents, key=lambda d: d["arms"][arms[0]]["kl_mean"])
    alt = f"Dot plot of the mean next-token KL per document for {' and '.join(arms)}. Worst for {arms[0]}: {worst['document']} with {worst['arms'][arms[0]]['kl_mean']:.2g} nats."
    rows = [[d["document"], *(d["arms"][a]["kl_mean"] for a in arms)] for d in documents]
    height = 1.4 + 0.24 * len(names)
    return Figure(
        "kl-documents",
        "Mean KL per document",
        alt,
        ["document", *arms],
        rows,
        render("kl-documents", (7, height), draw),
    )


def memory(record: dict[str, Any]) -> Figure:
    """Stacked bars: where each arm's bytes are, beside plain fp32, fp16, fp8 and q8_0."""
    data = record["memory"]
    groups = ("codes and scales", "recent", "sinks", "headers and padding", "idle", "tables and scratch")

    def split(entries: dict[str, int]) -> list[int]:
        payload = sum(v for k, v in entries.items() if k.startswith("payload: "))
        tables = entries["block_tables"] + entries["fixed_tables"] + entries["scratch"]
        return [
            payload,
            entries["recent"],
            entries["sinks"],
            entries["headers"] + entries["padding"],
            entries["idle"],
            tables,
        ]

    bars = {a["arm"]: split(a["entries"]) for a in data["arms"]}
    plain = data["baselines"]

    def draw(axes: Any) -> None:
        labels = [*(f"{n} (plain)" for n in plain), *bars]
        axes.barh(range(len(plain)), [v / 1e6 for v in plain.values()], color="#bbbbbb", edgecolor="black")
        for row, sizes in enumerate(bars.values(), start=len(plain)):
            left = 0.0
            for i, size in enumerate(sizes):
                label = groups[i] if row == len(plain) else None
                axes.barh(
                    row,
                    size / 1e6,
                    left=left,
                    color=COLOURS[i],
                    hatch=HATCHES[i],
                    edgecolor="black",
                    label=label,
                )
                left += size / 1e6
        axes.set(yticks=range(len(labels)), xlabel=f"megabytes for {data['tokens']} tokens, all layers")
        axes.set_yticklabels(labels)
        axes.invert_yaxis()
        axes.legend(fontsize=8)

    totals = ", ".join(f"{a['arm']} {a['total'] / 1e6:.2f} MB" for a in data["arms"])
    others = ", ".join(f"{n} {v / 1e6:.2f} MB" for n, v in plain.items())
    alt = f"Stacked bars of cache bytes at {data['tokens']} tokens: {totals}; plain storage of the same tokens: {others}."
    rows: list[list[Any]] = [[f"{n} (plain)", *([None] * len(groups)), v] for n, v in plain.items()]
    rows += [[n, *sizes, sum(sizes)] for n, sizes in bars.items()]
    return Figure(
        "memory",
        "Where the bytes are",
        alt,
        ["cache", *groups, "total"],
        rows,
        render("memory", (7, 3.4), draw),
    )


def attention(record: dict[str, Any]) -> Figure:
    """Rank agreement of key scores per probed layer."""
    arms = record["attention"]["arms"]
    layers = record["attention"]["layers"]

    def draw(axes: Any) -> None:
        for i, (name, rows) in enumerate(arms.items()):
            values = [r["values"]["key_tau"] for r in rows]
            axes.plot(
                [r["layer"] for r in rows],
                values,
                marker=MARKERS[i],
                linestyle=LINES[i % 4],
                color=COLOURS[i],
                label=name,
            )
        axes.set(xlabel="layer", ylabel="Kendall tau-b, top 32 keys", xticks=layers, ylim=(None, 1.02))
        axes.grid(True, alpha=0.3)
        axes.legend()

    parts = [
        "; ".join(f"{n} layer {r['layer']}: {r['values']['key_tau']:.2f}" for r in rows)
        for n, rows in arms.items()
    ]
    alt = f"Line chart of the rank agreement of key scores with exact scores per layer (1 is the same order). {'; '.join(parts)}."
    table = [
        [layer, *(rows[i]["values"]["key_tau"] for rows in arms.values())] for i, layer in enumerate(layers)
    ]
    return Figure(
        "attention",
        "Key ranking against exact attention",
        alt,
        ["layer", *arms],
        table,
        render("attention", (7, 3.0), draw),
    )


def all_figures(record: dict[str, Any]) -> list[Figure]:
    """The figures of a record (its ``as_dict``), in the report's order."""
    return [memory(record), kl_quantiles(record), kl_documents(record), attention(record)]
