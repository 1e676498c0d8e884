"""One trial from the command line: what it measured and its verdict as JSON.

Exit codes as of tq: 0 pass, 1 fail, 2 bad input, 3 not exercised.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from tq_core.errors import ModelUnavailable, TqError, ValueRangeError
from tq_core.kernels.backend import get_backend
from tq_core.model.zoo import load_model
from validation.cli import BAD_INPUT, CODES, INCOMPLETE
from validation.fitted import arm_on
from validation.gates import overall
from validation.repeat import trial_command
from validation.rules_of_memory import TRIAL_OF, trial_gates
from validation.trials.run import run_trials


def option(text: str) -> tuple[str, Any]:
    """NAME=VALUE as (name, value). Raises ValueRangeError for another form."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise ValueRangeError(f"option: expected NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = argparse.ArgumentParser(prog="python -m validation.trials", description=__doc__)
    made.add_argument("gate", choices=[*TRIAL_OF, "all"], help="the gate whose trial is run")
    made.add_argument(
        "--model",
        default="tiny",
        help="tiny (default), smollm2 or gemma: its shape, and for identity its logits",
    )
    made.add_argument("--arm", default="structured-turbo")
    made.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the arm (may be repeated)",
    )
    made.add_argument("--backend", metavar="NAME", help="backend that runs the cache's kernels")
    return made


def run(options: argparse.Namespace) -> int:
    """Try, judge, print. Raises TqError for what cannot be tried at all."""
    given = dict(option(text) for text in options.option)
    backend = get_backend(options.backend)
    model = load_model(options.model)
    names = list(TRIAL_OF) if options.gate == "all" else [options.gate]
    wanted = list(dict.fromkeys(TRIAL_OF[name] for name in names))
    trials = run_trials(model, arm_on(model, [], options.arm, **given), backend, only=wanted)
    verdicts = [g.judge(trials) for g in trial_gates(trials) if g.name in names]
    again = {name: trial_command(name, options.model, options.arm, given) for name in names}
    status = overall(verdicts)
    data = {
        "status": status,
        "model": options.model,
        "arm": options.arm,
        "options": given,
        "backend": backend.name,
        "gates": [{**v.as_dict(), "command": again[v.name]} for v in verdicts],
        "trials": {name: trials.as_dict()[name] for name in wanted},
        "not_exercised": {n: why for n, why in trials.not_exercised.items() if n in wanted},
        "left_out": {n: why for n, why in trials.left_out.items() if n in wanted},
    }
    print(json.dumps(data, indent=1, allow_nan=False))
    return CODES[status]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and return the exit code."""
    try:
        options = parser().parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        return run(options)
    except ModelUnavailable as error:
        print(f"trials: {' '.join(str(error).split())}", file=sys.stderr)
        return INCOMPLETE
    except TqError as error:
        print(f"trials: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
