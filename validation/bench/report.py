"""A run as files: bench.json, bench.txt and two figures, each as SVG and PNG."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from validation.bench import figures

Result = dict[str, Any]
_ORDER = (
    "decode step",
    "key scan",
    "value scan",
    "append",
    "query",
    "softmax",
    "window",
    "allocator",
    "call overhead",
)
_TITLES = {
    "append": "append (per token appended and KV head)",
    "query": "query (one token's queries, per KV head)",
    "allocator": "allocator (one page from the pool and back)",
    "call overhead": "call overhead (a fused call without tokens, per KV head)",
    "key scan": "key scan (turbovec and faiss: only the best 10 scores)",
}


def _cells(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return list(dict.fromkeys((r["task"], r["shape"], r["tokens"], r["threads"], r["state"]) for r in rows))


def _row_line(row: dict[str, Any], ratios: dict[Any, float]) -> str:
    key = (row["name"], row["shape"], row["tokens"], row["threads"], row["state"])
    times = f"{ratios[key]:8.2f}x" if key in ratios and row["task"] == "decode step" else " " * 9
    gbs = f"{row['payload_gbs']:7.1f}" if row["payload_bytes"] else " " * 7
    figures_ = f"{row['ns_per_token_head']:10.2f} {row['mad_ns_per_token_head']:8.2f} {row['min_ns_per_token_head']:10.2f}"
    return f"  {row['name']:<34} {figures_} {gbs} {times}  {row.get('checked', '')}".rstrip()


def table(result: Result) -> str:
    """The result as text, the reference's conditions first."""
    host, rows = result["host"], result["rows"]
    out = [
        f"{host['cpu']}, {host['cores']} cores, {host['system']}, load before {host['load_before']}, after {host.get('load_after', [])}",
        f"commit {result['git']['commit'][:12]}{' with changes' if result['git']['dirty'] else ''}, {result['started']}, "
        f"plan {result['plan']['name']}, {result['seconds']:.0f} s",
        "read bandwidth, GB/s: "
        + ", ".join(f"{t} threads {gbs:.1f}" for t, gbs in result["read_bandwidth_by_threads"].items()),
        "ns per token and KV head (median, median absolute deviation, least); payload GB/s; how many times faster the exact step is",
    ]
    ratios = {
        (c["peer"], c["shape"], c["tokens"], c["threads"], c["state"]): c["ratio"]
        for c in result["comparisons"]
    }
    for cell in sorted(_cells(rows), key=lambda c: _ORDER.index(c[0])):
        task, shape, tokens, threads, state = cell
        out += ["", f"{_TITLES.get(task, task)}: {shape}, {tokens} tokens, {threads} threads, {state}"]
        mine = [r for r in rows if (r["task"], r["shape"], r["tokens"], r["threads"], r["state"]) == cell]
        out += [_row_line(r, ratios) for r in sorted(mine, key=lambda r: r["ns_per_token_head"])]
    out += ["", "goals (for the record, no gate)"]
    out += [
        f"  {_verdict(g):<13} {_number(g['measured']):>8} of {g['at_least']:<5g} {g['goal']}"
        for g in result["goals"]
    ]
    grouped: dict[tuple[str, str], int] = {}
    for row in result["not_measured"]:
        grouped[row["name"], row["reason"]] = grouped.get((row["name"], row["reason"]), 0) + 1
    if grouped:
        out += ["", "not measured"]
        out += [f"  {name} ({n} cells): {' '.join(reason.split())}" for (name, reason), n in grouped.items()]
    return "\n".join(out) + "\n"


def _verdict(goal: dict[str, Any]) -> str:
    return {True: "met", False: "missed", None: "not measured"}[goal["met"]]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def write(result: Result, out: Path) -> dict[str, Path]:
    """Write every file, each replaced at once and bench.json last; returns their paths.

    Without matplotlib the figures are left out and the text says so.
    """
    text, drawn = table(result), {}
    try:
        drawn = {
            f"{name}.{kind}": draw(result, kind)
            for name, draw in figures.FIGURES.items()
            for kind in ("svg", "png")
        }
    except ImportError as error:
        text += f"\nfigures: not drawn: {error}\n"
    files = {
        "bench.txt": text.encode(),
        **{name: image for name, image in drawn.items() if image is not None},
    }
    files["bench.json"] = (json.dumps(result, indent=1, allow_nan=False) + "\n").encode()
    return write_files(files, out)


def write_files(files: dict[str, bytes], out: Path) -> dict[str, Path]:
    """Write files into a folder, each replaced at once; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        handle, temporary = tempfile.mkstemp(dir=out, prefix=".tq-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, out / name)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    return {name: out / name for name in files}
