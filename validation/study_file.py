"""Studies as YAML files: read strictly, with everything that is wrong named at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tq_core.errors import TqError
from validation.controls import CONTROL_NAMES, validation_arm_names
from validation.faults import Faults, find_yaml, read_yaml, shipped_in, short
from validation.prompt_metrics import PROMPT_METRICS
from validation.study import (
    ANY_MODEL,
    LEAST_PROMPTS,
    PARITY_SCOPES,
    Budget,
    Comparison,
    Controls,
    Study,
    WorkloadUse,
)
from validation.workloads.catalogue import WORKLOADS

FOLDER = Path(__file__).with_name("studies")
REQUIRED = ("name", "version", "question", "model", "arms", "workloads", "budgets")
OPTIONAL = ("beside", "controls", "comparisons", "seeds", "confidence", "least_prompts", "parity")
MAX_PROMPTS, MAX_FAMILY = 100_000, 20


class StudyError(TqError, ValueError):
    """A study file is unreadable or asks for what there is not; the message names every fault."""


def parse_study(data: object, file: str = "") -> Study:
    """A study from plain data. Raises StudyError with all faults."""
    faults = Faults()
    if not faults.check(isinstance(data, dict), "study", "a mapping", type(data).__name__):
        raise StudyError("; ".join(faults.said))
    given: Mapping[str, Any] = data  # type: ignore[assignment]
    faults.check(
        set(REQUIRED) <= set(given),
        "study",
        f"the keys {', '.join(REQUIRED)}",
        sorted(map(short, given)),
    )
    unknown = sorted(short(k) for k in given if k not in (*REQUIRED, *OPTIONAL))
    faults.check(not unknown, "study", f"no other keys than {', '.join((*REQUIRED, *OPTIONAL))}", unknown)
    parts = _parts(given, faults)
    if faults.said:
        raise StudyError(f"{file or 'study'}: " + "; ".join(faults.said))
    return Study(**parts, file=file)


def _parts(given: Mapping[str, Any], faults: Faults) -> dict[str, Any]:
    for name in ("name", "question", "model"):
        faults.text(given.get(name), name)
    faults.whole(given.get("version"), "version", 1, 10_000)
    arms = validation_arm_names()
    uses = faults.rows(given.get("workloads"), "workloads", ("name", "prompts", "tokens"), 1)
    for index, row in enumerate(uses):
        faults.whole(row["prompts"], f"workloads[{index}].prompts", 1, MAX_PROMPTS)
        faults.whole(row["tokens"], f"workloads[{index}].tokens", 2, 1 << 20)
        own = isinstance(row["name"], str) and row["name"].startswith("file:")
        if not own:
            faults.name(row["name"], f"workloads[{index}].name", tuple(WORKLOADS))
    used = [row["name"] for row in uses if isinstance(row["name"], str)]
    faults.check(len(set(used)) == len(used), "workloads", "every workload once", used)
    budgets = faults.rows(given.get("budgets"), "budgets", ("workload", "metric", "limit", "why"), 1)
    comparisons = faults.rows(given.get("comparisons", []), "comparisons", ("workload", "metric"))
    faults.check(
        len(comparisons) <= MAX_FAMILY,
        "comparisons",
        f"at most {MAX_FAMILY}, a small family",
        len(comparisons),
    )
    for where, rows in (("budgets", budgets), ("comparisons", comparisons)):
        for index, row in enumerate(rows):
            faults.name(row["workload"], f"{where}[{index}].workload", used)
            faults.name(row["metric"], f"{where}[{index}].metric", tuple(PROMPT_METRICS))
    for index, row in enumerate(budgets):
        faults.number(row["limit"], f"budgets[{index}].limit")
        faults.text(row["why"], f"budgets[{index}].why")
    faults.number(given.get("confidence", 0.95), "confidence")
    faults.check(
        0.5 < _float(given.get("confidence", 0.95)) < 1, "confidence", "0.5..1", given.get("confidence")
    )
    faults.whole(given.get("least_prompts", 20), "least_prompts", 1, MAX_PROMPTS)
    faults.name(given.get("parity", "quick"), "parity", PARITY_SCOPES)
    _enough(given.get("least_prompts", LEAST_PROMPTS), uses, budgets, faults)
    made: dict[str, Any] = {
        **{n: given[n] for n in ("name", "version", "question", "model") if n in given},
        "arms": faults.names(given.get("arms"), "arms", arms, 1),
        "beside": faults.names(given.get("beside", []), "beside", arms),
        "controls": _controls(given.get("controls", {"prompts": 1, "arms": []}), faults),
        "seeds": _seeds(given.get("seeds", {}), faults),
        "confidence": _float(given.get("confidence", 0.95)),
        "least_prompts": given.get("least_prompts", 20),
        "parity": given.get("parity", "quick"),
    }
    if not faults.said:
        made["workloads"] = tuple(WorkloadUse(**row) for row in uses)
        made["budgets"] = tuple(Budget(**{**row, "limit": float(row["limit"])}) for row in budgets)
        made["comparisons"] = tuple(Comparison(**row) for row in comparisons)
    return made


def _enough(
    least: object, uses: Sequence[Mapping[str, Any]], budgets: Sequence[Mapping[str, Any]], faults: Faults
) -> None:
    """A budget that could never be met is a fault of the study, not of the arm."""
    judged = {row["workload"] for row in budgets if isinstance(row["workload"], str)}
    for index, use in enumerate(uses):
        few = isinstance(least, int) and isinstance(use["prompts"], int) and use["prompts"] < least
        if few and isinstance(use["name"], str) and use["name"] in judged:
            faults.check(
                False,
                f"workloads[{index}].prompts",
                f"at least {least}, since it has a budget",
                use["prompts"],
            )


def _float(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _controls(value: object, faults: Faults) -> Controls:
    if not faults.check(
        isinstance(value, dict) and set(value) == {"prompts", "arms"}, "controls", "prompts and arms", value
    ):
        return Controls(1, ())
    row: dict[str, Any] = dict(value)  # type: ignore[call-overload]
    faults.whole(row["prompts"], "controls.prompts", 1, MAX_PROMPTS)
    return Controls(row["prompts"], faults.names(row["arms"], "controls.arms", CONTROL_NAMES))


def _seeds(value: object, faults: Faults) -> dict[str, Any]:
    known = {"resampling": 0, "rotation": [], "sampling": []}
    if not faults.check(
        isinstance(value, dict) and set(value) <= set(known), "seeds", f"some of {', '.join(known)}", value
    ):
        return known
    seeds: dict[str, Any] = {**known, **value}  # type: ignore[dict-item]
    faults.whole(seeds["resampling"], "seeds.resampling", 0, 2**63 - 1)
    for name in ("rotation", "sampling"):
        if faults.check(isinstance(seeds[name], list), f"seeds.{name}", "a list", seeds[name]):
            for seed in seeds[name]:
                faults.whole(seed, f"seeds.{name}", 0, 2**63 - 1)
    return seeds


def read_study(path: str | Path) -> Study:
    """A study from a YAML file. Raises StudyError for a file that cannot be read, is too large, or is wrong."""
    data = read_yaml(Path(path), StudyError)
    return parse_study(data, Path(path).name)


def shipped() -> dict[str, Path]:
    """Name of each study that comes with the repository -> its file."""
    return shipped_in(FOLDER)


def find_study(name: str) -> Study:
    """A study by the name of a shipped one or by path. Raises StudyError."""
    return read_study(find_yaml(name, FOLDER, "study", StudyError))


DEFAULT_STUDIES = {"tiny": "tiny-episodes", "smollm2": "smollm2-chat", "gemma": "gemma-text"}


def default_study(model: str) -> Study:
    """What `tq validate` runs for a model when nothing else is asked for; a model of the user's own has "any-model"."""
    return find_study(DEFAULT_STUDIES.get(model, "any-model"))


def fits(study: Study, model: str) -> bool:
    """Whether a study was registered for this model."""
    return study.model in (ANY_MODEL, model)
