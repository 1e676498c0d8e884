"""How often the judgement is wrong, by simulation: `python -m validation.stats.calibration`.

A clean arm should be stopped in at most 5 % of runs, and an arm whose true loss is exactly the budget should
be stopped nearly always. ``--rows FILE`` takes per-prompt losses of a clean arm instead of the assumed shapes:
JSON of {metric: [loss, ...]} or {metric: {"values": [...], "budgets": [...]}}.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.errors import TqError, ValueRangeError, check
from validation.stats import simulate
from validation.stats.intervals import RESAMPLES
from validation.stats.power import without_loss
from validation.stats.shapes import Shape, default_shapes, row_shape

RESULT = Path(__file__).parent / "results" / "calibration.json"
PROMPTS = (20, 24, 40, 60)
RUNS = 1000
CONFIDENCE = 0.95
MOST_FALSE_STOPS = 0.05
LEAST_STOPPED_AT_BUDGET = 0.90  # nominal 0.95; skewness of the kind that is measured costs a part of the gap
METHODS: dict[str, simulate.Bounds] = {
    "judge": simulate.judged,
    "studentised": simulate.studentised,
    "BCa": simulate.bca,
    "Student": simulate.student,
    "percentile": simulate.percentile,
}
_CHUNK = 250  # runs at a time; a chunk holds two arrays of RESAMPLES numbers a run


def bounds(
    shape: Shape, n: int, mean: float, runs: int, seed: int, method: simulate.Bounds = simulate.judged
) -> np.ndarray:
    """Bounds (runs,) of that many samples of ``n`` prompts; the samples depend on shape, n and seed alone."""
    rng = np.random.default_rng([seed, n, zlib.crc32(f"{shape.metric} {shape.name}".encode())])
    samples = shape.draw(rng, (runs, n), mean)
    parts = [method(samples[i : i + _CHUNK], CONFIDENCE) for i in range(0, runs, _CHUNK)]
    return np.concatenate(parts)


def row(
    shape: Shape, n: int, budget: float | None, clean: np.ndarray, runs: int, seed: int
) -> dict[str, Any]:
    """One line: shares of runs in which a clean arm and one at the budget (else at its own mean) are stopped."""
    at_budget = bounds(shape, n, shape.clean if budget is None else budget, runs, seed + 1)
    stopped = 1 - simulate.passing(at_budget, shape.clean if budget is None else budget)
    false_stops = None if budget is None else 1 - simulate.passing(clean, budget)
    # Flips that are all zero pass, so that fewer prompts than the rule of three asks cannot stop a rare loss.
    enough = not shape.binary or budget is None or n >= without_loss(budget, CONFIDENCE)
    passes_95 = float(np.quantile(clean, 0.95))
    return {
        "metric": shape.metric,
        "shape": shape.name,
        "unit": shape.unit,
        "source": shape.source,
        "stress": shape.stress,
        "n": n,
        "clean": shape.clean,
        "budget": budget,
        "false_stops": false_stops,
        "power": None if false_stops is None else 1 - false_stops,
        "stopped_at_budget": stopped,
        "enough": enough,
        "holds": stopped >= LEAST_STOPPED_AT_BUDGET,
        "decides": false_stops is not None and false_stops <= MOST_FALSE_STOPS,
        "budget_clean_passes": passes_95 if np.isfinite(passes_95) else None,
    }


def compare_methods(
    shapes: Sequence[Shape], prompts: Sequence[int], runs: int, seed: int
) -> list[dict[str, Any]]:
    """Share of arms exactly at their budget that each method lets pass: nominal 5 %."""
    found = []
    for shape in shapes:
        mean = shape.budgets[-1]
        for n in prompts:
            passed = {
                name: simulate.passing(bounds(shape, n, mean, runs, seed, method), mean)
                for name, method in METHODS.items()
            }
            found.append({"metric": shape.metric, "shape": shape.name, "n": n, "passed_at_budget": passed})
    return found


def study(
    shapes: Sequence[Shape],
    prompts: Sequence[int] = PROMPTS,
    runs: int = RUNS,
    seed: int = 0,
    methods: bool = True,
) -> dict[str, Any]:
    """The whole simulation as plain data; the same arguments give the same numbers."""
    rows = []
    for shape in shapes:
        for n in prompts:
            clean = bounds(shape, n, shape.clean, runs, seed)
            rows += [row(shape, n, budget, clean, runs, seed) for budget in shape.budgets or (None,)]
    compared = [s for s in shapes if s.budgets and not s.binary] if methods else []
    return {
        "schema": {"name": "tq-stats-calibration", "version": 1},
        "settings": {
            "runs": runs,
            "seed": seed,
            "confidence": CONFIDENCE,
            "resamples": RESAMPLES,
            "most_false_stops": MOST_FALSE_STOPS,
            "least_stopped_at_budget": LEAST_STOPPED_AT_BUDGET,
        },
        "rows": rows,
        "methods": compare_methods(compared, prompts, runs, seed),
    }


def required(line: dict[str, Any]) -> bool:
    """Whether the arm at the budget must be stopped: not on stress shapes, nor with too few prompts for flips."""
    return line["enough"] and not line["stress"]


def table(found: dict[str, Any], prompts: Sequence[int] | None = None) -> str:
    """The rows as a Markdown table; ``prompts`` keeps only those numbers of prompts."""
    lines = [
        "| metric | shape | prompts | clean | budget | clean arm stopped | arm at the budget stopped | a budget that 95 % of clean arms pass |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in found["rows"]:
        if prompts is not None and r["n"] not in prompts:
            continue
        mark = (
            "" if r["holds"] else " (stress)" if r["stress"] else " (too few)" if not r["enough"] else " (!)"
        )
        told = ["-" if r[k] is None else f"{r[k]:.3g}" for k in ("clean", "budget", "budget_clean_passes")]
        false_stops = "-" if r["false_stops"] is None else f"{r['false_stops']:.1%}"
        lines.append(
            f"| {r['metric']} | {r['shape']} | {r['n']} | {told[0]} | {told[1]} | {false_stops} "
            f"| {r['stopped_at_budget']:.1%}{mark} | {told[2]} |"
        )
    return "\n".join(lines)


def read_rows(path: Path) -> list[Shape]:
    """Shapes from a file of measured rows. Raises ValueRangeError when it is not such a file."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise ValueRangeError(f"--rows: expected a JSON file, got {path}: {problem}") from problem
    check(
        isinstance(data, dict) and bool(data), "--rows", "an object of metrics", type(data), ValueRangeError
    )
    shapes = []
    for metric, told in data.items():
        told = told if isinstance(told, dict) else {"values": told}
        check("values" in told, metric, "a list, or an object with values", sorted(told), ValueRangeError)
        shapes.append(row_shape(metric, told["values"], told.get("budgets", ())))
    return shapes


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 0 when every required shape holds, 1 when one does not, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m validation.stats.calibration", description=__doc__)
    parser.add_argument("--rows", type=Path, help="measured per-prompt losses of a clean arm")
    parser.add_argument("--prompts", type=int, nargs="+", default=list(PROMPTS), help="numbers of prompts")
    parser.add_argument("--runs", type=int, default=RUNS, help="simulated runs of each case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=None, help=f"result (default without --rows: {RESULT.name})"
    )
    given = parser.parse_args(argv)
    try:
        shapes = read_rows(given.rows) if given.rows else default_shapes()
        check(
            min(given.prompts) >= 2 and given.runs >= 1,
            "--prompts, --runs",
            "at least 2 and 1",
            given.prompts,
        )
        found = study(shapes, given.prompts, given.runs, given.seed, methods=given.rows is None)
    except TqError as problem:
        print(problem, file=sys.stderr)
        return 2
    out = given.out or (None if given.rows else RESULT)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found))
    return 0 if all(r["holds"] or not required(r) for r in found["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
