"""The record of a run: what the report and its JSON are made from, one comment per field."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = {"name": "tq-validation-report", "version": 1}
SCHEMA_FILE = Path(__file__).with_name("schema") / "report-v1.schema.json"
# Left out of the digest: they change from run to run, or with the machine, while the findings stay.
VOLATILE = ("run", "measurements", "engines", "figures", "result_digest")


@dataclass(frozen=True)
class Record:
    """Everything is plain data, so that it can be written as JSON and read back."""

    status: str  # pass, fail, or incomplete when a gate was not exercised
    verdict: list[str]  # the same in words, the conclusion first
    summary: dict[str, Any]  # number of gates by outcome, and the headline numbers
    profile: dict[str, Any]  # effective configuration: model, arm, backend, budgets, amounts of text
    inputs: list[dict[str, Any]]  # documents and model file with their digests
    engines: list[dict[str, Any]]  # every known backend: run or not run, and why
    gates: list[dict[str, Any]]  # verdicts with claim, value, limit, reason, evidence
    effect: list[dict[str, Any]]  # proof of effect, one row per arm
    memory: dict[str, Any]  # ledger per arm and the same tokens as fp32, fp16, fp8, q8_0
    quality: dict[str, Any]  # metric definitions, values per arm with intervals, per document, contrasts
    attention: dict[str, Any]  # agreement with exact attention per arm and layer
    controls: list[dict[str, Any]]  # planted bad arm, no-op arm, fp16 against float32
    parity: dict[str, Any] | None  # certificate, None when it was left out
    measurements: list[dict[str, Any]]  # times and peak memory; they depend on the machine and decide nothing
    claims: list[dict[str, Any]]  # sentences labelled measured-here, calculated or paper-claim
    not_shown: list[str]  # what the report does not establish
    not_exercised: list[str]  # what could have been checked and was not, with the reason
    run: dict[str, Any]  # command, time, git commit, machine, packages
    incomplete: str = ""
    study: dict[str, Any] = field(default_factory=dict)
    workloads: list[dict[str, Any]] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    comparisons: list[dict[str, Any]] = field(default_factory=list)
    trajectories: list[dict[str, Any]] = field(default_factory=list)
    performance: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The record with its schema and digest, as the JSON file has it."""
        body = asdict(self)
        return {"schema": dict(SCHEMA), "result_digest": result_digest(body), **body}


def canonical(data: Any) -> str:
    """Canonical JSON: sorted keys, no blanks, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def result_digest(body: dict[str, Any]) -> str:
    """SHA-256 over the part of a record that a repeated run on the same machine gives again."""
    kept = {k: v for k, v in body.items() if k not in VOLATILE and k != "schema"}
    return hashlib.sha256(canonical({"schema": SCHEMA, **kept}).encode()).hexdigest()
