"""Roofline, and bytes moved against time, for the reference cell of a result. Nothing is measured here.

Every contestant has a number, a marker and a shade, so that the figures can be read without colour.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from validation.bench.plan import SHAPES

Result = dict[str, Any]
Row = dict[str, Any]
_MARKERS = "osD^vPX*<>hp"
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#666666")


def reference_rows(result: Result) -> list[Row]:
    """Decode steps under the conditions of ``ratios_at``, fastest first."""
    where = {k: v for k, v in result["ratios_at"].items() if k != "base"}
    if not where:
        return []
    found = [
        r for r in result["rows"] if r["task"] == "decode step" and all(r[k] == v for k, v in where.items())
    ]
    return sorted(found, key=lambda r: r["ns_per_token_head"])


def products_per_token_head(row: Row) -> int:
    """Multiply-adds for one token and KV head: scores and sums for every query head of it."""
    shape = SHAPES[row["shape"]]
    return 2 * shape.head_dim * shape.n_query_heads // shape.n_kv_heads


def bytes_per_token_head(row: Row) -> float:
    """Payload of one token and KV head."""
    return row["payload_bytes"] / (row["tokens"] * SHAPES[row["shape"]].n_kv_heads)


def _threads(n: int) -> str:
    return "one thread" if n == 1 else f"{n} threads"


def _render(result: Result, kind: str, draw: Callable[[Any, list[Row]], None], name: str) -> bytes | None:
    rows = reference_rows(result)
    if not rows:
        return None
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {"svg.hashsalt": f"tq-{name}", "svg.fonttype": "none", "font.size": 9.0}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(9.0, 5.2), layout="constrained", facecolor="white")
        axes = figure.subplots()
        draw(axes, rows)
        where = result["ratios_at"]
        axes.set_title(
            f"{where['shape']}, {where['tokens']} tokens, {_threads(where['threads'])}, {where['state']}; one decode step of a layer",
            loc="left", fontsize=9,
        )  # fmt: skip
        axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
        figure.legend(loc="outside right upper", fontsize=7.5, frameon=False)
        out = io.BytesIO()
        metadata: Any = (
            {"Date": None, "Creator": None, "Title": name} if kind == "svg" else {"Software": None}
        )
        figure.savefig(out, format=kind, dpi=110, metadata=metadata)
    return out.getvalue()


def _points(axes: Any, rows: list[Row], at: Callable[[Row], tuple[float, float]]) -> None:
    for i, row in enumerate(rows):
        x, y = at(row)
        face = _COLOURS[i % len(_COLOURS)] if i < len(_MARKERS) else "white"
        axes.plot(
            [x], [y], linestyle="none", marker=_MARKERS[i % len(_MARKERS)], markersize=7, markerfacecolor=face,
            markeredgecolor=_COLOURS[i % len(_COLOURS)], label=f"{i + 1}  {row['name']}",
        )  # fmt: skip
        # Neighbours differ little: their numbers go to opposite sides.
        axes.annotate(
            str(i + 1), (x, y), textcoords="offset points", xytext=(6 if i % 2 else -14, 4), fontsize=8
        )
    axes.set_xscale("log")
    axes.set_yscale("log")


def roofline(result: Result, kind: str) -> bytes | None:
    """Multiply-adds per second against multiply-adds per byte, under the measured read bandwidth; None without rows."""
    roof = result["read_bandwidth_gbs"]

    def draw(axes: Any, rows: list[Row]) -> None:
        def at(row: Row) -> tuple[float, float]:
            products = products_per_token_head(row)
            return products / bytes_per_token_head(row), products / row["ns_per_token_head"]

        xs = [at(r)[0] for r in rows]
        span = [min(xs) / 1.5, max(xs) * 1.5]
        axes.plot(span, [roof * x for x in span], "k-", label=f"read bandwidth, {roof:.1f} GB/s")
        for share, style in ((0.5, "--"), (0.25, ":")):
            axes.plot(
                span, [share * roof * x for x in span], "k" + style, linewidth=0.9, label=f"{share:.0%} of it"
            )
        _points(axes, rows, at)
        axes.set_xlabel("multiply-adds per byte of stored keys and values")
        axes.set_ylabel("multiply-adds per second (10⁹)")

    return _render(result, kind, draw, "roofline")


def bytes_against_time(result: Result, kind: str) -> bytes | None:
    """Nanoseconds against bytes, per token and KV head, over the time that reading alone takes; None without rows."""
    roof = result["read_bandwidth_gbs"]

    def draw(axes: Any, rows: list[Row]) -> None:
        sizes = [bytes_per_token_head(r) for r in rows]
        span = [min(sizes) / 1.3, max(sizes) * 1.3]
        axes.plot(span, [x / roof for x in span], "k-", label=f"reading alone, at {roof:.1f} GB/s")
        axes.plot(span, [2 * x / roof for x in span], "k--", linewidth=0.9, label="twice that time")
        _points(axes, rows, lambda r: (bytes_per_token_head(r), r["ns_per_token_head"]))
        axes.set_xlabel("stored bytes per token and KV head")
        axes.set_ylabel("nanoseconds per token and KV head")

    return _render(result, kind, draw, "bytes")


FIGURES: dict[str, Callable[[Result, str], bytes | None]] = {
    "roofline": roofline,
    "bytes": bytes_against_time,
}
