"""The command line of `tq bench`: ``add_parser`` and ``run`` are what the `tq` command hooks in."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tq_core.errors import ValueRangeError, check
from tq_core.kernels.layout import PAGE_TOKENS
from validation.bench.plan import FULL, QUICK, REPEATS_MIN, SHAPES, Plan
from validation.bench.protocol import command as protocol

DEFAULT_OUT = Path("build") / "bench"
TOKENS_MAX = 1 << 20
PASS, FAILED = 0, 1


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `bench` to the sub-commands of a parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "bench", help="time the decode step and its parts beside other implementations"
    )
    parser.add_argument("--quick", action="store_true", help="one shape and length, within two minutes")
    parser.add_argument(
        "--shape", action="append", metavar="NAME", help=f"of {', '.join(SHAPES)} (may be repeated)"
    )
    parser.add_argument(
        "--tokens", action="append", type=int, metavar="N", help="history length (may be repeated)"
    )
    parser.add_argument("--threads", action="append", type=int, metavar="N", help="1 or 2 (may be repeated)")
    parser.add_argument("--repeats", type=int, metavar="N", help=f"rounds, at least {REPEATS_MIN}")
    parser.add_argument("--peer", action="append", metavar="NAME", help="only this peer (may be repeated)")
    parser.add_argument("--no-peers", action="store_true", help="our own code only")
    parser.add_argument("--no-wasm", action="store_true", help="without WebAssembly")
    parser.add_argument(
        "--out",
        type=Path,
        default=DEFAULT_OUT,
        metavar="DIR",
        help=f"folder of the result (default: {DEFAULT_OUT})",
    )
    parser.add_argument("--json", action="store_true", help="JSON on standard output, nothing else there")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    protocol.add_options(parser)
    return parser


def plan_of(args: argparse.Namespace) -> Plan:
    """The plan that the options ask for. Raises ValueRangeError."""
    plan = QUICK if args.quick else FULL
    wanted: dict[str, Any] = {"parts": plan.parts, "wasm": not args.no_wasm, "peers": not args.no_peers}
    for shape in args.shape or ():
        check(shape in SHAPES, "shape", f"one of {', '.join(SHAPES)}", repr(shape), ValueRangeError)
    for tokens in args.tokens or ():
        ok = 0 < tokens <= TOKENS_MAX and tokens % PAGE_TOKENS == 0
        check(ok, "tokens", f"a multiple of {PAGE_TOKENS} up to {TOKENS_MAX}", tokens, ValueRangeError)
    for threads in args.threads or ():
        check(threads in (1, 2), "threads", "1 or 2", threads, ValueRangeError)
    if args.repeats is not None:
        check(
            args.repeats >= REPEATS_MIN, "repeats", f"at least {REPEATS_MIN}", args.repeats, ValueRangeError
        )
        wanted["repeats"] = args.repeats
    for name, given in (
        ("shapes", args.shape),
        ("tokens", args.tokens),
        ("threads", args.threads),
        ("peer_names", args.peer),
    ):
        if given:
            wanted[name] = tuple(dict.fromkeys(given))
    return replace(plan, **wanted)


def _progress(quiet: bool) -> Any:
    def say(what: str, done: int, total: int) -> None:
        if not quiet and done < total:
            print(f"  {what} ({done + 1} of {total})", file=sys.stderr, flush=True)

    return say


def run(args: argparse.Namespace) -> int:
    """Measure, write the files, print the table (or the JSON). 1 when a result was wrong; speed is no failure.

    Raises ValueRangeError for options that make no plan, BackendError when the kernels cannot be compiled here.
    """
    from validation.bench import report
    from validation.bench.run import run as carry_out

    parent = next(p for p in (args.out, *args.out.absolute().parents) if p.exists())
    check(parent.is_dir(), "out", "a folder", f"{parent}, which is a file", ValueRangeError)
    if args.protocol:
        return protocol.run(args)
    plan = plan_of(args)
    result = carry_out(plan, _progress(args.quiet))
    paths = report.write(result, args.out)
    print(json.dumps(result, indent=1, allow_nan=False) if args.json else report.table(result), flush=True)
    if not args.json:
        print(f"written: {', '.join(str(p) for p in paths.values())}")
    wrong = [r["name"] for r in result["rows"] if r.get("checked") == "DIFFERS"]
    if wrong:
        print(f"tq bench: wrong results: {', '.join(sorted(set(wrong)))}", file=sys.stderr)
    return FAILED if wrong else PASS


def main(arguments: list[str] | None = None) -> int:
    """``python -m validation.bench``: the same without the `tq` command."""
    parser = argparse.ArgumentParser(prog="python -m validation.bench")
    add_parser(parser.add_subparsers(dest="command", required=True))
    return run(parser.parse_args(["bench", *(sys.argv[1:] if arguments is None else arguments)]))
