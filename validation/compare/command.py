"""The command line of `tq compare`: ``add_parser`` and ``run`` are what the `tq` command hooks in."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tq_core.errors import ValueRangeError
from tq_core.model.zoo import load_model, model_names
from validation.compare.claims import KINDS, check_claims
from validation.compare.plan import PRESETS, RATES, make_plan
from validation.compare.report import write
from validation.compare.result import make_result, table_rows, text_table
from validation.compare.run import run as run_plan
from validation.environment import command_line, now, run_facts

AMOUNTS = ("documents", "tokens", "calibration", "window", "sinks")


def _rates(given: str) -> tuple[float, ...]:
    try:
        return tuple(float(x) for x in given.split(","))
    except ValueError:
        raise ValueRangeError(f"rates: expected numbers such as 2,2.5,3, got {given[:60]!r}") from None


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `compare` to the sub-commands of a parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "compare", help="every arm on the same vectors, model, ledger and full-precision mask"
    )
    tiny = PRESETS["tiny"]
    parser.add_argument(
        "--model", default="tiny", help=f"{', '.join(model_names())}, or a path (default: tiny)"
    )
    parser.add_argument(
        "--arms",
        metavar="A,B",
        help="some arms instead of all, each NAME or NAME:option=value:option=value",
    )
    parser.add_argument(
        "--rates",
        default=",".join(f"{r:g}" for r in RATES),
        metavar="BITS,BITS",
        help="rates to try each arm at (default: %(default)s)",
    )
    parser.add_argument("--documents", type=int, metavar="N", help=f"texts to score (tiny: {tiny.documents})")
    parser.add_argument("--tokens", type=int, metavar="T", help=f"tokens of each (tiny: {tiny.tokens})")
    parser.add_argument("--calibration", type=int, metavar="N", help="texts to fit on, never scored")
    parser.add_argument("--window", type=int, metavar="TOKENS", help="recent tokens in fp16, for every arm")
    parser.add_argument("--sinks", type=int, metavar="TOKENS", help="first tokens in fp16, for every arm")
    parser.add_argument(
        "--claims", action="store_true", help="only the claims that need no model, measured again"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="write compare.json, .txt, .html and .svg")
    parser.add_argument("--json", action="store_true", help="JSON on standard output, nothing else there")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return parser


def run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Compare, print, write; returns the exit code. Raises TqError subclasses for bad input."""
    from validation.cli import PASS, Progress, check_out

    check_out(options.out)
    command, started, begun = command_line(arguments), now(), time.monotonic()
    if options.claims:
        checked = [c for c in check_claims([], command) if c.measured is not None]
        if options.json:
            print(json.dumps([c.as_dict() for c in checked], indent=1, allow_nan=False))
        else:
            print("\n".join(claim_text([c.as_dict() for c in checked])))
        return PASS
    arms = options.arms.split(",") if options.arms else None
    plan = make_plan(options.model, arms, _rates(options.rates), **{n: getattr(options, n) for n in AMOUNTS})
    model = load_model(options.model)
    if not options.quiet:
        print(f"{len(plan.entries)} arms and rates; {plan.mask}", file=sys.stderr)
    done = run_plan(plan, model, Progress(options.quiet))
    facts = run_facts(command, started, time.monotonic() - begun)
    result = make_result(done, model, command, {**facts, "measured": done.measured, "reused": done.reused})
    paths = write(result, options.out) if options.out is not None else {}
    if options.json:
        print(json.dumps(result, indent=1, allow_nan=False), flush=True)
        return PASS
    print(as_text(result))
    for name, path in paths.items():
        print(f"{name}: {path}")
    return PASS


def as_text(result: dict[str, Any]) -> str:
    """The table of rows, what could not be measured, and the claims."""
    plan, first = result["plan"], result["rows"][0]
    lines = [
        f"{result['model']['name']}, documents: {plan['documents']} of {plan['tokens']} tokens; {plan['mask']}",
        f"intervals: {first['kl_ci95_method']}, {first['kl_ci95_covers']}; * is on the frontier",
        "",
        text_table(*table_rows(result)),
    ]
    lines += [f"not measured: {x['label']}: {x['reason']}" for x in result["not_measured"]]
    lines += ["", *claim_text(result["claims"])] if result["claims"] else []
    return "\n".join(lines)


def claim_text(claims: Sequence[dict[str, Any]]) -> list[str]:
    """Two lines for each claim: what it is about, and the numbers side by side."""
    lines = []
    for c in claims:
        said = [f"{kind} {c[kind]}" for kind in KINDS if c[kind]]
        got = "not run" if c["measured"] is None else f"{c['measured']:.4g}"
        lines += [
            f"{c['subject']}: {c['quantity']}",
            f"    {' | '.join(said)} | measured {got} | {c['verdict']}",
        ]
    return lines
