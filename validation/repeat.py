"""The command that repeats a check, as one would type it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from validation.plan import KL, TOP1, Plan
from validation.study import Study
from validation.study_file import StudyError, default_study, find_study

# Arm options that `tq validate` takes, and the flag of each.
_OPTIONS = {"key_bits": "--key-bits", "value_bits": "--value-bits", "window": "--window", "sinks": "--sinks", "seed": "--rotation-seed"}  # fmt: skip


def validate_command(plan: Plan) -> str:
    """`tq validate` with everything in which the plan departs from its study as registered."""
    study, named = _registered(plan)
    parts = ["tq", "validate", "--model", plan.model, "--arm", plan.arm, *named]
    for name, value in plan.options.items():
        if name in _OPTIONS:
            parts += [_OPTIONS[name], f"{value:g}" if isinstance(value, float) else str(value)]
    parts += _changes(study, plan.study)
    if plan.backend is not None:
        parts += ["--backend", plan.backend]
    return shlex.join(parts)


def _registered(plan: Plan) -> tuple[Study, list[str]]:
    """The study before departures, and how to ask for it; as the plan has it where its file is no longer there."""
    for name in ("", plan.study.name, plan.study.file):
        try:
            study = find_study(name) if name else default_study(plan.model)
        except StudyError:
            continue
        if study.sha256 == plan.registered:
            return study, ["--study", name] if name else []
    return plan.study, []


def _changes(study: Study, run: Study) -> list[str]:
    """Flags that make of the one study the other."""
    parts: list[str] = []
    before, after = ({use.name: use for use in s.workloads} for s in (study, run))
    if set(after) != set(before):
        parts += [word for name in after for word in ("--workload", name)]
    if any(use.prompts != before[use.name].prompts for use in run.workloads):
        parts += ["--prompts", str(max(use.prompts for use in run.workloads))]
    if any(use.tokens != before[use.name].tokens for use in run.workloads):
        parts += ["--length", str(run.primary.tokens)]
    old, new = ({(b.workload, b.metric): b.limit for b in s.budgets} for s in (study, run))
    for metric, flag in ((KL, "--kl-budget"), (TOP1, "--top1-budget")):
        key = (run.primary.name, metric)
        if key in new and new[key] != old.get(key):
            parts += [flag, repr(new[key] if metric == KL else 1 - new[key])]
    if run.parity != study.parity:
        parts += ["--parity", run.parity]
    if run.seeds["resampling"] != study.seeds["resampling"]:
        parts += ["--seed", str(run.seeds["resampling"])]
    return parts


def trial_command(gate: str, model: str, arm: str, options: Mapping[str, Any]) -> str:
    """The trial behind one gate, alone."""
    parts = ["python", "-m", "validation.trials", gate, "--model", model, "--arm", arm]
    for name, value in options.items():
        parts += ["--option", f"{name}={json.dumps(value)}"]
    return shlex.join(parts)
