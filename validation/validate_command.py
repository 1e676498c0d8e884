"""`tq validate`: its options, and a run from them to the report's folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tq_core.errors import ModelUnavailable

DEFAULT_OUT = Path("build") / "report"


def add_parser(commands: Any) -> None:
    """Add the command to `tq`."""
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
    validate.add_argument("--json", action="store_true", help="JSON on standard output, nothing else there")
    validate.add_argument("--quiet", action="store_true", help="no progress on standard error")


def run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Validate and write the report; the exit code follows the verdict, 130 for a run that was interrupted."""
    from tq_core.model.zoo import load_model
    from validation import report
    from validation.cli import CODES, INTERRUPTED, Progress, check_out
    from validation.engine.execute import executor_for
    from validation.environment import command_line
    from validation.plan import make_plan
    from validation.runner import examine, timings
    from validation.study_file import find_study
    from validation.tables_workloads import samples

    check_out(options.out)
    arm_options = {"key_bits": options.key_bits, "value_bits": options.value_bits, "window": options.window}
    arm_options |= {"sinks": options.sinks, "seed": options.rotation_seed}
    study = None if options.study is None else find_study(options.study)
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
    print(json.dumps(data, indent=1, allow_nan=False) if options.json else text, flush=True)
    return INTERRUPTED if found.ended.startswith("interrupted") else CODES[record.status]
