"""The whole protocol: every arm at every length, llama.cpp beside it, machine and commit; and its text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tq_core.codecs.arms import Arm
from tq_core.kernels.backend import Backend, get_backend
from tq_core.model.interface import LanguageModel
from validation.bench import machine
from validation.bench.protocol.beside import beside, ratios
from validation.bench.protocol.measure import Progress, measure
from validation.bench.protocol.rows import MEASUREMENTS, SHARES, Row

SCHEMA = {"name": "tq-protocol", "version": 1}
PROTOCOL = (
    "One thread. A pass fills a cache: prefill in chunks of 64 tokens, then 16 tokens one by one; a context is what the cache "
    "holds at the end. Figures are medians with the median absolute deviation, over passes, decode steps or rounds (n). "
    "Clocks sit around the calls of model, cache and page pools, none in the product. Parts of a fused step are separate "
    "kernels over the same pages. WebAssembly rows come from drawn tokens in pages that lie in linear memory."
)


def run_protocol(
    model: LanguageModel, arms: Sequence[Arm], contexts: Sequence[int], repeats: int, seconds: float,
    with_llama: bool, progress: Progress, backend: Backend | None = None,
    clock: str = "wall",
) -> dict[str, Any]:  # fmt: skip
    """What goes to protocol.json. Raises ValueRangeError for lengths and repeats that make no run."""
    start, facts, runner = time.monotonic(), machine.facts(), backend or get_backend()
    rows: list[Row] = []
    for arm in arms:
        rows += measure(model, arm, contexts, runner, repeats, progress, seconds, clock)
    others: list[Row] = []
    if with_llama:
        others, versions = beside(model, contexts, repeats, progress, seconds, clock)
        facts["versions"] |= versions
    facts["host"]["load_after"] = machine.load()
    return {
        "schema": SCHEMA, "model": model.name, "arms": [arm.name for arm in arms], "contexts": list(contexts),
        "backend": runner.name, "clock": clock, "repeats": repeats, "limit_seconds": seconds, "rows": rows, "beside": others,
        "ratios": ratios([*rows, *others]), "protocol": PROTOCOL, **facts, "seconds": round(machine.seconds_since(start), 1),
    }  # fmt: skip


def text(result: dict[str, Any]) -> str:
    """Two tables, one column per arm and length; then llama.cpp, and what was not measured."""
    host, columns = result["host"], [(a, c) for a in result["arms"] for c in result["contexts"]]
    at = {(r["what"], r["arm"], r["context"]): r for r in result["rows"]}
    out = [
        f"{host['cpu']}, {host['system']}, load before {host['load_before']}, after {host.get('load_after', [])}",
        f"commit {result['git']['commit'][:12]}{' with changes' if result['git']['dirty'] else ''}, {result['started']}, "
        f"model {result['model']}, {result['backend']}, {result['repeats']} passes, {result['clock']} clock, {result['seconds']:.0f} s",
    ]
    for title, names in (("the thirteen measurements", MEASUREMENTS), ("shares and speeds", SHARES)):
        for arm in result["arms"]:
            out += ["", f"{title}: {arm}", _line("", [f"{c} tokens" for a, c in columns if a == arm])]
            for what, unit in names.items():
                cells = [_cell(at.get((what, arm, c))) for a, c in columns if a == arm]
                out.append(_line(f"{what}, {unit}", cells))
    if result["beside"]:
        out += [
            "",
            "llama.cpp on the same file (tokens/s), and how many times its f16 speed the others reach",
        ]
        out += [_beside_line(r, result["ratios"]) for r in result["beside"]]
        speeds = [r for r in result["rows"] if r["what"] in ("prefill speed", "decode speed") and r["value"]]
        out += [_beside_line(r, result["ratios"]) for r in speeds]
    gaps = [r for r in [*result["rows"], *result["beside"]] if r["value"] is None]
    if gaps:
        grouped: dict[tuple[str, str], list[str]] = {}
        for row in gaps:
            grouped.setdefault((row["arm"], row["note"]), []).append(f"{row['what']} at {row['context']}")
        out += ["", "not measured"]
        out += [
            f"  {arm}: {note} ({len(what)}: {', '.join(what[:3])}{', ...' * (len(what) > 3)})"
            for (arm, note), what in grouped.items()
        ]
    return "\n".join(out) + "\n"


def _line(name: str, cells: list[str]) -> str:
    return f"  {name:<46}" + "".join(f"{cell:>24}" for cell in cells)


def _cell(row: Row | None) -> str:
    if row is None or row["value"] is None:
        return "not measured"
    spread = row["median_absolute_deviation"]
    return _number(row["value"]) + ("" if spread is None else f" ± {_number(spread)}")


def _number(x: float) -> str:
    return f"{x:,.0f}" if float(x).is_integer() or x >= 1000 else f"{x:.3g}"


def _beside_line(row: Row, compared: list[dict[str, Any]]) -> str:
    ratio = next(
        (c["ratio"] for c in compared if all(c[k] == row[k] for k in ("what", "arm", "context"))), None
    )
    times = "" if ratio is None else f"{ratio:8.2f}x"
    return f"  {row['context']:>6} {row['what']:<14} {row['arm']:<24} {_cell(row):>20} {times}".rstrip()
