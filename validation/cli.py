"""The `tq` command. JSON goes to standard output alone, progress to standard error.

Exit codes: 0 pass, 1 a check failed, 2 bad input, 3 incomplete (something was not exercised), 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tq_core.errors import ModelUnavailable, TqError, ValueRangeError, check
from validation import flips_command, report_command, validate_command
from validation.bench import command as bench
from validation.budget import command as budget
from validation.compare import command as compare
from validation.diagnose import command as diagnose
from validation.diff import command as diff
from validation.museum import command as museum
from validation.sweep import command as sweep

PASS, FAILED, BAD_INPUT, INCOMPLETE, INTERRUPTED = 0, 1, 2, 3, 130
CODES = {"pass": PASS, "fail": FAILED, "incomplete": INCOMPLETE}


class _Parser(argparse.ArgumentParser):
    """Bad usage is one line, like every other bad input."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(BAD_INPUT)


class Progress:
    """Lines on standard error, at most one every two seconds, with the time left where it can be told."""

    def __init__(self, quiet: bool = False, every: float = 2.0) -> None:
        self._quiet, self._every = quiet, every
        self._last, self._begun, self._stage = 0.0, 0.0, ""

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        stage = what.split(" ")[0]
        if stage != self._stage:
            self._stage, self._begun, self._last = stage, now, 0.0
        if self._quiet or (now - self._last < self._every and done < total):
            return
        self._last = now
        spent = now - self._begun
        left = f", about {spent / done * (total - done):.0f} s left" if 0 < done < total and spent > 3 else ""
        print(f"  {what}: {done} of {total}{left}", file=sys.stderr, flush=True)


def _parser() -> _Parser:
    parser = _Parser(
        prog="tq",
        description="Compressed key-value caches: what runs here, same bits, and is it good enough.",
    )
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)

    bench.add_parser(commands)
    budget.add_parser(commands)
    museum.add_parser(commands)
    flips_command.add_parser(commands)
    diagnose.add_parser(commands)
    compare.add_parser(commands)
    report_command.add_parser(commands)
    diff.add_parser(commands)
    sweep.add_parser(commands)
    doctor = commands.add_parser("doctor", help="what runs on this machine, and what is missing")
    parity = commands.add_parser("parity", help="every kernel on every backend: the same bits")
    parity.add_argument(
        "--backend", action="append", metavar="NAME", help="only this backend (may be repeated)"
    )
    parity.add_argument("--quick", action="store_true", help="a subset of the cases")
    parity.add_argument(
        "--strict", action="store_true", help="a missing backend is a failure (exit 1), not exit 3"
    )
    parity.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="also write the certificate, DIR/parity.html and DIR/parity.json",
    )

    validate_command.add_parser(commands)
    for command in (doctor, parity):
        command.add_argument(
            "--json", action="store_true", help="JSON on standard output, nothing else there"
        )
        command.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return parser


def _emit(data: dict[str, Any], as_json: bool, text: str) -> None:
    print(json.dumps(data, indent=1, allow_nan=False) if as_json else text, flush=True)


def _doctor(options: argparse.Namespace) -> int:
    from validation import doctor

    found = doctor.diagnose()
    _emit(found, options.json, doctor.as_text(found))
    return CODES[found["status"]]


def _parity(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from validation.environment import command_line, git_state, machine, now
    from validation.parity_report import NOT_ASKED, certify
    from validation.report import write_certificate

    check_out(options.out)
    made = certify(options.backend, options.quick, Progress(options.quiet))
    status = made.status(options.strict)
    run = {"command": command_line(arguments), "finished": now(), "git": git_state(), "machine": machine()}
    data = {"status": status, **made.as_dict(), "run": run}
    lines = [f"{made.cases} of {made.cases_known} cases on {', '.join(made.backends)}"]
    if options.out is not None:
        lines.append(f"certificate: {write_certificate(data, options.out)['html']}")
    told = {m["name"] for m in made.missing}
    lines += [f"missing: {m['name']}: {m['reason']}" for m in made.missing]
    others = [m for m in made.not_exercised if m["name"] not in told and m["reason"] != NOT_ASKED]
    lines += [f"not exercised: {m['name']}: {m['reason']}" for m in others]
    lines += [f"differs: {json.dumps(d)}" for d in made.differences]
    wrong = [e for e in made.engines if e["known_answers"]["status"] == "fail"]
    lines += [f"known answers: {e['known_answers']['note']}" for e in wrong]
    lines += [
        f"instructions: {m['module']}: {m['gate']}" for m in made.wasm_opcodes if m["gate"].startswith("fail")
    ]
    if not made.independent:
        lines.append("nothing was compared with the numpy reference but itself")
    lines.append(f"{status}: {made.differing_bits:,} differing bits of {made.bits_compared:,} compared")
    _emit(data, options.json, "\n".join(lines))
    return CODES[status]


def check_out(out: Path | None) -> None:
    """Refuse a folder that cannot be one before anything is computed."""
    if out is None:
        return
    parent = next(p for p in (out, *out.absolute().parents) if p.exists())
    check(parent.is_dir(), "out", "a folder", f"{parent}, which is a file", ValueRangeError)
    check(os.access(parent, os.W_OK), "out", "a folder that can be written", str(parent), ValueRangeError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = _parser().parse_args(given)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        if options.command == "bench":
            return bench.run(options)
        if options.command == "plan":
            return budget.run(options)
        if options.command == "museum":
            return museum.run(options, Progress(options.quiet))
        if options.command == "flips":
            return flips_command.run(options, Progress(options.quiet))
        if options.command == "diagnose":
            return diagnose.run(options, Progress(options.quiet))
        if options.command == "compare":
            return compare.run(options, given)
        if options.command == "report":
            return report_command.run(options)
        if options.command == "diff":
            return diff.run(options)
        if options.command == "sweep":
            return sweep.run(options, given)
        if options.command == "doctor":
            return _doctor(options)
        if options.command == "parity":
            return _parity(options, given)
        return validate_command.run(options, given)
    except ModelUnavailable as error:
        print(f"tq {options.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return INCOMPLETE
    except TqError as error:
        print(f"tq {options.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        kept = "what was measured so far is kept, the same command goes on from there"
        what = kept if options.command in ("compare", "sweep", "validate") else "nothing was written"
        print(f"tq {options.command}: interrupted, {what}", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
