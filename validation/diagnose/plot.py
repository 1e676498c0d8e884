"""The figure of a diagnosis: what depends on the layer. Nothing is computed here."""

from __future__ import annotations

from typing import Any

from validation.figures import COLOURS, LINES, MARKERS, Figure, render

SHOWN = (
    ("norm_ratio", "key / value length"),
    ("static_mean_share", "energy in the mean of all keys"),
    ("page_128_share", "energy in the means of 128-token pages"),
    ("pre_rope_mean_share", "energy in the mean before RoPE"),
    ("first_key_norms", "length of key 0 / the usual"),
    ("mass_first", "attention on position 0"),
)


def _value(row: dict[str, Any], name: str) -> float | None:
    value = row.get(name)
    return value[0] if isinstance(value, list) else value


def by_layer(data: dict[str, Any]) -> Figure:
    """Median over the KV heads of each layer, one line per figure that is known."""
    rows = data["heads"]
    layers = sorted({row["layer"] for row in rows})
    series: dict[str, list[float | None]] = {}
    for name, label in SHOWN:
        if name not in data["summary"] and f"{name}[0]" not in data["summary"]:
            continue
        per_layer = []
        for layer in layers:
            found = sorted(v for r in rows if r["layer"] == layer and (v := _value(r, name)) is not None)
            per_layer.append(found[len(found) // 2] if found else None)
        series[label] = per_layer

    def draw(axes: Any) -> None:
        for i, (label, values) in enumerate(series.items()):
            points = [(n, v) for n, v in zip(layers, values, strict=True) if v is not None and v > 0]
            axes.plot(
                *zip(*points, strict=True) if points else ([], []),
                marker=MARKERS[i],
                linestyle=LINES[i % 4],
                color=COLOURS[i],
                label=label,
                markersize=4,
            )
        axes.set(yscale="log", xlabel="layer", ylabel="ratio or share")
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=7, loc="best")

    ends = "; ".join(f"{k}: first layer {_told(v[0])}, last {_told(v[-1])}" for k, v in series.items())
    alt = f"Line chart over the layers of {data['source']['name']}, logarithmic. {ends}."
    table = [[layer, *(values[i] for values in series.values())] for i, layer in enumerate(layers)]
    svg = render("diagnose", (7, 4), draw)
    return Figure("diagnose", "Keys and values by layer", alt, ["layer", *series], table, svg)


def _told(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2g}"
