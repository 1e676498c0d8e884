"""The record of a run: what the report and its JSON are made from, one comment per field, and its schema and digest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA = {"name": "tq-validation-report", "version": 2}
SCHEMA_FILE = Path(__file__).with_name("schema") / "report-v2.schema.json"
# Left out of the digest: they change from run to run, or with the machine, while the findings stay.
VOLATILE = ("run", "measurements", "performance", "engines", "figures", "result_digest")
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Record:
    """Everything is plain data, so that it can be written as JSON and read back."""

    status: str  # pass, fail, or incomplete when a gate was not exercised
    verdict: list[str]  # the same in words, the conclusion first
    summary: dict[str, Any]  # number of gates by outcome, and the headline numbers
    profile: dict[str, Any]  # effective configuration: model, arm, backend, budgets, amounts of text
    inputs: Rows  # documents and model file with their digests
    engines: Rows  # every known backend: run or not run, and why
    gates: Rows  # verdicts with claim, value, limit, reason, evidence; "command" repeats one; see `deterministic`
    effect: Rows  # proof of effect, one row per arm
    memory: dict[str, Any]  # ledger per arm and the same tokens as fp32, fp16, fp8, q8_0
    quality: dict[str, Any]  # metric definitions, values per arm with intervals, per document, contrasts
    attention: dict[str, Any]  # agreement with exact attention per arm and layer
    controls: Rows  # planted bad arm, no-op arm, fp16 against float32
    parity: dict[str, Any] | None  # certificate, None when it was left out
    measurements: Rows  # times and peak memory; they depend on the machine and decide nothing
    claims: Rows  # sentences labelled measured-here, calculated or paper-claim
    not_shown: list[str]  # what the report does not establish
    not_exercised: list[str]  # what could have been checked and was not, with the reason
    run: dict[str, Any]  # command, time, git commit, machine, packages

    incomplete: str = ""  # why the run ended early; empty for a whole one
    study: dict[str, Any] | None = None  # the preregistered plan and what departs from it; None without one
    workloads: Rows = field(default_factory=list)  # what each shows and cannot, and its metrics per arm
    decisions: Rows = field(default_factory=list)  # losses and bounds against the budgets of the study
    comparisons: Rows = field(default_factory=list)  # claims of difference, one Holm family
    trajectories: Rows = field(default_factory=list)  # where replies leave the reference's
    replies: Rows = field(default_factory=list)  # free replies scored per arm; they decide nothing
    performance: Rows = field(default_factory=list)  # timings per arm and context; they decide nothing

    def as_dict(self) -> dict[str, Any]:
        """The record with its schema and digest, as the JSON file has it. Raises ValueError for a number that is not finite."""
        body = json.loads(json.dumps(asdict(self), allow_nan=False))
        return {"schema": dict(SCHEMA), "result_digest": result_digest(body), **body}


def canonical(data: Any) -> str:
    """Canonical JSON: sorted keys, no blanks, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def deterministic(body: dict[str, Any]) -> dict[str, Any]:
    """The part of a record that a repeated run on the same machine gives again.

    Left out beside VOLATILE: where the study's file lies, the command of a gate, and the value and evidence of a gate
    that says "volatile" because it measured the machine; its status stays.
    """
    kept = {k: v for k, v in body.items() if k not in VOLATILE and k != "schema"}
    kept["gates"] = [_without_measuring(g) for g in body["gates"]]
    if body.get("study"):
        kept["study"] = {k: v for k, v in body["study"].items() if k != "file"}
    return kept


def _without_measuring(gate: dict[str, Any]) -> dict[str, Any]:
    out = ("command", "value", "evidence") if gate.get("volatile") else ("command",)
    return {k: v for k, v in gate.items() if k not in out}


def result_digest(body: dict[str, Any]) -> str:
    """SHA-256 over the schema and the deterministic part of a record."""
    return hashlib.sha256(canonical({"schema": SCHEMA, **deterministic(body)}).encode()).hexdigest()


@cache
def _validator(part: str) -> Any:
    import jsonschema

    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    if part:
        schema = {"$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": f"#/$defs/{part}"}
    return jsonschema.Draft202012Validator(schema)


def problem(data: Any, part: str = "") -> str | None:
    """The first thing in which a report's JSON, or one of the schema's definitions such as "sample", breaks the schema."""
    from jsonschema.exceptions import best_match

    found = best_match(_validator(part).iter_errors(data))
    if found is None:
        return None
    where = "/".join(map(str, found.absolute_path)) or "the whole"
    return f"{where}: {found.message[:200]}"
