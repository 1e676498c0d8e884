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
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from tq_core.errors import ModelUnavailable, TqError, ValueRangeError, check
from validation import flips_command, report_command
from validation.bench import command as bench
from validation.budget import command as budget
from validation.compare import command as compare
from validation.diagnose import command as diagnose
from validation.diff import command as diff
from validation.museum import command as museum
from validation.sweep import command as sweep

PASS, FAILED, BAD_INPUT, INCOMPLETE, INTERRUPTED = 0, 1, 2, 3, 130
CODES = {"pass": PASS, "fail": FAILED, "incomplete": INCOMPLETE}
DEFAULT_OUT = Path("build") / "report"


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

    validate = commands.add_parser("validate", help="validate an arm on a model and write the report")
    validate.add_argument(
        "--model", default="tiny", help="tiny (default), smollm2, gemma, or a GGUF file or safetensors folder"
    )
    validate.add_argument("--arm", help="the arm under test (default: the study's first)")
    validate.add_argument("--study", metavar="FILE", help="a study's YAML file, or the name of a shipped one")
    validate.add_argument(
        "--workload",
        action="append",
        metavar="NAME",
        help="only this workload of the study (may be repeated)",
    )
    validate.add_argument("--key-bits", type=float, metavar="BITS")
    validate.add_argument("--value-bits", type=float, metavar="BITS")
    validate.add_argument("--window", type=int, metavar="TOKENS", help="recent tokens kept in fp16")
    validate.add_argument("--sinks", type=int, metavar="TOKENS", help="first tokens kept in fp16")
    validate.add_argument("--rotation-seed", type=int, metavar="N")
    validate.add_argument("--prompts", type=int, metavar="N", help="at most N prompts of each workload")
    validate.add_argument("--length", type=int, metavar="N", help="tokens per prompt")
    validate.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that read (default: 1)"
    )
    validate.add_argument(
        "--scheduler", metavar="ADDRESS", help="a Dask scheduler whose workers read instead"
    )
    validate.add_argument("--no-trials", action="store_true", help="do not try memory and identity")
    validate.add_argument(
        "--timed", action="store_true", help="also time the arm beside fp16, into the report"
    )
    validate.add_argument("--fresh", action="store_true", help="take no reading that was kept from before")
    validate.add_argument("--kl-budget", type=float, metavar="NATS", help="limit of the mean next-token KL")
    validate.add_argument(
        "--top1-budget", type=float, metavar="SHARE", help="least share of equal top tokens"
    )
    validate.add_argument("--backend", metavar="NAME", help="backend that runs the cache's kernels")
    validate.add_argument("--parity", choices=("full", "quick", "off"), help="parity cases (default: quick)")
    validate.add_argument("--seed", type=int, metavar="N", help="seed of the resampling")
    validate.add_argument(
        "--fallback-tiny", action="store_true", help="without the model, report on tiny and say so (exit 3)"
    )
    validate.add_argument(
        "--out",
        type=Path,
        default=DEFAULT_OUT,
        metavar="DIR",
        help=f"folder of the report (default: {DEFAULT_OUT})",
    )
    for command in (doctor, parity, validate):
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


def _validate(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from tq_core.model.zoo import load_model
    from validation import report
    from validation.engine.execute import executor_for
    from validation.environment import command_line
    from validation.plan import make_plan
    from validation.runner import examine, timings
    from validation.study_file import find_study
    from validation.tables_workloads import samples

    check_out(options.out)
    arm_options = {"key_bits": options.key_bits, "value_bits": options.value_bits, "window": options.window}
    arm_options |= {"sinks": options.sinks, "seed": options.rotation_seed}
    study = find_study(options.study) if options.study else None
    wanted: dict[str, Any] = {
        "prompts": options.prompts,
        "length": options.length,
        "kl_budget": options.kl_budget,
    }
    wanted |= {
        "top1_budget": options.top1_budget,
        "backend": options.backend,
        "parity": options.parity,
        "seed": options.seed,
    }
    wanted["options"] = {k: v for k, v in arm_options.items() if v is not None}
    wanted |= {"workloads": options.workload, "trials": not options.no_trials}
    arms = [options.arm] if options.arm else None
    plan = make_plan(options.model, arms, study=study, **wanted)
    try:
        model = load_model(options.model)
    except ModelUnavailable as error:
        if not options.fallback_tiny:
            raise
        print(f"tq: {error}\ntq: going on with the tiny model", file=sys.stderr)
        # Amounts and budgets were meant for the other model; the tiny one has its own.
        kept = {k: v for k, v in wanted.items() if k in ("backend", "parity", "seed", "options", "trials")}
        reason = f"Model {options.model}: {error}"
        plan = make_plan("tiny", arms, **kept, asked_for=options.model, not_exercised=(reason,))
        model = load_model("tiny")
    progress, command = Progress(options.quiet), command_line(arguments)
    executor = executor_for(options.workers, options.scheduler)
    record, found = examine(plan, model, progress, command, executor=executor, fresh=options.fresh)
    if options.timed and not found.ended:
        record = replace(record, performance=timings(plan, model, progress))
    paths = report.write(record, options.out, samples(found, model))
    data = {
        "status": record.status,
        "model": plan.model,
        "asked_for": plan.asked_for,
        "arm": plan.arm,
        "tokens_scored": record.summary["tokens_scored"],
        "documents": record.summary["documents"],
        "kl_mean": record.summary["kl_mean"],
        "top1_agreement": record.summary["top1_agreement"],
        "bits_all_in": record.summary["bits_all_in"],
        "memory_share_of_fp16": record.summary["memory_share_of_fp16"],
        "gates": {g["name"]: g["status"] for g in record.gates},
        "not_exercised": record.not_exercised,
        "report": str(paths["html"]),
        "report_json": str(paths["json"]),
        "result_digest": record.as_dict()["result_digest"],
    }
    text = "\n".join([*record.verdict, f"report: {paths['html']}"])
    _emit(data, options.json, text)
    return INTERRUPTED if found.ended.startswith("interrupted") else CODES[record.status]


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
        return _parity(options, given) if options.command == "parity" else _validate(options, given)
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
