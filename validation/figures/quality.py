"""Figures of the agreement with the reference: next-token KL and key ranking. Nothing is computed here."""

from __future__ import annotations

from typing import Any

from validation.figures.plate import Figure, look, number, render

MOST_DRAWN = 40  # documents; more would make the figure longer than a page


def kl_quantiles(record: dict[str, Any]) -> Figure:
    """KL at which share of the tokens, one line per arm."""
    data = record["quality"]["kl_quantiles"]
    shares, arms = data["shares"], data["arms"]
    floor = 1e-6

    def draw(axes: Any) -> None:
        for i, (name, values) in enumerate(arms.items()):
            shown = [max(v, floor) for v in values]
            axes.plot(shown, shares, label=name, **look(i))
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
    """Mean KL of each document, one marker per arm; of many documents the worst are drawn and all are in the table."""
    documents = record["quality"]["documents"]
    arms = list(record["quality"]["arms"])
    first = arms[0]

    def worst_first(d: dict[str, Any]) -> float:
        return -float(d["arms"][first]["kl_mean"])

    drawn = documents if len(documents) <= MOST_DRAWN else sorted(documents, key=worst_first)[:MOST_DRAWN]

    def draw(axes: Any) -> None:
        for i, arm in enumerate(arms):
            values = [d["arms"][arm]["kl_mean"] for d in drawn]
            axes.plot(values, range(len(drawn)), label=arm, **{**look(i), "linestyle": "none"})
        axes.set(yticks=range(len(drawn)), xlabel="mean next-token KL in nats", xlim=(0, None))
        axes.set_yticklabels([d["document"] for d in drawn])
        axes.invert_yaxis()
        axes.grid(True, axis="x", alpha=0.3)
        axes.legend()

    worst = min(documents, key=worst_first)
    alt = f"Dot plot of the mean next-token KL per document for {' and '.join(arms)}. Worst for {first}: {worst['document']} with {worst['arms'][first]['kl_mean']:.2g} nats."
    rows = [[d["document"], *(d["arms"][a]["kl_mean"] for a in arms)] for d in documents]
    title = "Mean KL per document"
    if len(drawn) < len(documents):
        title += f", the {len(drawn)} largest of {len(documents)}"
    height = 1.4 + 0.24 * len(drawn)
    picture = render("kl-documents", (7, height), draw)
    return Figure("kl-documents", title, alt, ["document", *arms], rows, picture)


def attention(record: dict[str, Any]) -> Figure:
    """Rank agreement of key scores per probed layer."""
    arms = record["attention"]["arms"]
    layers = record["attention"]["layers"]

    def draw(axes: Any) -> None:
        for i, (name, rows) in enumerate(arms.items()):
            told = [(r["layer"], r["values"]["key_tau"]) for r in rows if r["values"]["key_tau"] is not None]
            axes.plot([t[0] for t in told], [t[1] for t in told], label=name, **look(i))
        axes.set(xlabel="layer", ylabel="Kendall tau-b, top 32 keys", xticks=layers, ylim=(None, 1.02))
        axes.grid(True, alpha=0.3)
        axes.legend()

    parts = [
        "; ".join(f"{n} layer {r['layer']}: {number(r['values']['key_tau'])}" for r in rows)
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
