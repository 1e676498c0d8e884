"""A validation run from its settings to the record: read, measure, judge, put into words."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from tq_core.kernels.backend import backend_statuses, get_backend
from tq_core.model.interface import LanguageModel
from tq_core.model.zoo import load_model
from validation import tables, words
from validation.environment import now, peak_memory, run_facts
from validation.findings import Findings, collect
from validation.gates import count, overall
from validation.parity_report import Certificate, certify
from validation.plan import Plan, make_plan
from validation.rules import gates_for
from validation.scenarios import documents_for
from validation.schema import Record
from validation.stats import MIN_DOCUMENTS

Progress = Callable[[str, int, int], None]


def run(
    model_name: str = "tiny",
    arm_names: Sequence[str] | None = None,
    *,
    progress: Progress | None = None,
    command: str = "",
    certificate: Certificate | None = None,
    **settings: Any,
) -> Record:
    """Validate the first of ``arm_names`` on a model; the other arms are run beside it on the same tokens.

    ``settings`` are fields of Plan (tokens, length, options, kl_budget, ...); ``certificate`` replaces the
    parity check by one that was made before. Nothing is written. Raises TqError subclasses for settings
    that cannot be used and ModelUnavailable when the model is not to be had.
    """
    plan = make_plan(model_name, arm_names, **settings)
    return run_plan(plan, load_model(model_name), progress, command, certificate)


def run_plan(
    plan: Plan,
    model: LanguageModel,
    progress: Progress | None = None,
    command: str = "",
    certificate: Certificate | None = None,
) -> Record:
    """`run` with a plan and a loaded model."""
    started, begun = now(), time.monotonic()
    documents = documents_for(model, plan.tokens, plan.length)
    backend = get_backend(plan.backend)
    if certificate is None and plan.parity != "off":
        certificate = certify(quick=plan.parity == "quick", progress=progress)
    findings = collect(plan, model, documents, backend, certificate, progress)
    return make_record(findings, model, backend.name, command, started, time.monotonic() - begun)


def make_record(
    f: Findings, model: LanguageModel, backend: str, command: str, started: str, seconds: float
) -> Record:
    """Judge the findings and lay them out."""
    verdicts = [gate.judge(f) for gate in gates_for(f.plan, f)]
    missing_model = f.plan.asked_for != f.plan.model
    status = overall(verdicts)
    if status == "pass" and (missing_model or f.plan.not_exercised):
        status = "incomplete"
    quality = tables.quality(f)
    statuses = backend_statuses()
    headline = {v["metric"]: v["value"] for v in quality["arms"][f.plan.arm]}
    summary = {
        "gates": count(verdicts),
        "tokens_scored": quality["tokens_scored"],
        "documents": len(f.documents),
        "kl_mean": headline["kl_mean"],
        "top1_agreement": headline["top1_agreement"],
        "bits_all_in": f.tested.ledger["bits_per_channel_all_in"],
        "memory_share_of_fp16": f.tested.ledger["total"] / f.reference.ledger["total"],
    }
    return Record(
        status=status,
        verdict=words.verdict(status, verdicts, f, summary),
        summary=summary,
        profile={
            "model": {
                "name": model.name,
                "shape": vars(model.shape),
                "sha256": model.digest,
                "context_length": model.context_length,
            },
            "arms": {n: a.config for n, a in f.arms.items()},
            "backend": backend,
            "plan": f.plan.describe(),
            "statistics": {"unit": "document", "minimum_documents": MIN_DOCUMENTS, "level": tables.LEVEL},
        },
        inputs=[d.describe() for d in f.documents],
        engines=[
            {"name": s.name, "status": "available" if s.available else "not available", "reason": s.reason}
            for s in statuses
        ],
        gates=[v.as_dict() for v in verdicts],
        effect=tables.effect(f),
        memory=tables.memory(f),
        quality=quality,
        attention=tables.attention(f),
        controls=tables.controls(f),
        parity=f.certificate.as_dict() if f.certificate else None,
        measurements=tables.measurements(f, peak_memory()),
        claims=words.claims(f, summary),
        not_shown=words.not_shown(f),
        not_exercised=words.not_exercised(f, verdicts, statuses),
        run=run_facts(command, started, seconds),
    )
