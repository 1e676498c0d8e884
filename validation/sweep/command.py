"""The command line of `tq sweep`: ``add_parser`` and ``run`` are what the `tq` command hooks in."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tq_core.errors import ValueRangeError, check
from validation.engine.execute import executor_for
from validation.environment import command_line, git_state, machine, now, packages
from validation.report import ReportError
from validation.sweep.file import find_sweep, shipped


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `sweep` to the sub-commands of a parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "sweep", help="a grid of arms, bits, windows, models and workloads, on one machine or a Dask cluster"
    )
    names = ", ".join(shipped())
    parser.add_argument("file", metavar="FILE", help=f"a sweep's YAML file, or a shipped one: {names}")
    parser.add_argument(
        "--prompts", type=int, metavar="N", help="at most N prompts of each workload, to try it out"
    )
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that read (default: 1, this one)"
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="read on a Dask cluster, such as tcp://host:8786"
    )
    parser.add_argument("--fresh", action="store_true", help="take no reading that was kept from before")
    parser.add_argument("--list", action="store_true", help="only say which points there are; read nothing")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write sweep.json, sweep.csv and sweep.html")
    parser.add_argument("--json", action="store_true", help="JSON on standard output, nothing else there")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return parser


def run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Sweep, print, write; returns the exit code. Raises TqError subclasses for bad input."""
    from validation.cli import CODES, INCOMPLETE, PASS, Progress, check_out
    from validation.sweep.points import expand
    from validation.sweep.report import write
    from validation.sweep.result import make_result
    from validation.sweep.run import run_sweep, small
    from validation.sweep.text import as_text

    check_out(options.out)
    sweep = find_sweep(options.file)
    if options.prompts is not None:
        check(options.prompts >= 1, "prompts", "at least 1", options.prompts, ValueRangeError)
        sweep = small(sweep, options.prompts)
    if options.list:
        _list(expand(sweep), options.json)
        return PASS
    executor = executor_for(options.workers, options.scheduler)
    command, started, begun = command_line(arguments), now(), time.monotonic()
    swept = run_sweep(sweep, executor=executor, fresh=options.fresh, progress=Progress(options.quiet))
    facts = {"command": command, "started": started, "finished": now(), "seconds": time.monotonic() - begun}
    facts |= {"where": _where(options), "git": git_state(), "machine": machine(), "packages": packages()}
    result = make_result(swept, facts)
    code, paths = CODES[result["status"]], {}
    if options.out is not None:
        try:
            paths = write(result, options.out)
        except ReportError as error:
            print(f"tq sweep: {error}; the results are printed alone", file=sys.stderr)
            code = INCOMPLETE
    if result["unkept"]:
        print(f"tq sweep: readings were not kept: {result['unkept']}", file=sys.stderr)
    print(json.dumps(result, indent=1, allow_nan=False) if options.json else as_text(result), flush=True)
    if not options.json:
        for path in paths.values():
            print(path)
    return code


def _where(options: argparse.Namespace) -> str:
    if options.scheduler:
        return f"Dask cluster at {options.scheduler}"
    return "this process" if options.workers == 1 else f"{options.workers} processes"


def _list(found: Any, as_json: bool) -> None:
    data = {
        "points": [p.describe() for p in found.points],
        "not_measured": [r.describe() for r in found.refused],
        "not_applied": found.not_applied,
    }
    lines = [p.label for p in found.points]
    lines += [f"not measured: {r.point.label}: {r.reason}" for r in found.refused]
    print(json.dumps(data, indent=1, allow_nan=False) if as_json else "\n".join(lines), flush=True)
