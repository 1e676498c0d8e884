"""The figure of the memory ledger."""

from __future__ import annotations

from typing import Any

from validation.figures.plate import COLOURS, HATCHES, Figure, render


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
