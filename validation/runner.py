"""A validation run from its settings to the record: read, measure, judge, put into words."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tq_core.codecs.arms import get_arm
from tq_core.kernels.backend import backend_statuses, get_backend
from tq_core.model.interface import LanguageModel
from tq_core.model.zoo import load_model as load_model  # what a caller of ``examine`` needs beside it
from validation import tables, words
from validation.bench.protocol.measure import measure
from validation.comparisons import comparisons
from validation.decisions import decisions
from validation.engine.execute import Executor
from validation.environment import now, peak_memory, run_facts
from validation.findings import Findings, collect
from validation.fitted import arm_on
from validation.gates import count, overall
from validation.parity_report import Certificate, certify
from validation.plan import Plan
from validation.prompt_metrics import PROMPT_METRICS
from validation.reply_rows import reply_rows
from validation.rules import gates_for
from validation.schema import Record
from validation.tables_workloads import workload_rows
from validation.trajectories import trajectories
from validation.workloads.catalogue import prompts_of
from validation.workloads.prompt import Prompt

Progress = Callable[[str, int, int], None]


def prompts_for(plan: Plan, model: LanguageModel) -> dict[str, list[Prompt]]:
    """Prompts of every workload of the plan, by name, the primary one first. Raises the workloads' errors."""
    return {u.name: prompts_of(model, u.name, u.prompts, u.tokens) for u in plan.study.workloads}


def examine(
    plan: Plan,
    model: LanguageModel,
    progress: Progress | None = None,
    command: str = "",
    certificate: Certificate | None = None,
    *,
    executor: Executor | None = None,
    fresh: bool = False,
) -> tuple[Record, Findings]:
    """(record, what it was made from) of a plan on its loaded model.

    certificate: replaces the parity check by one that was made before. executor: where prompts are read, this process if
    None. Nothing is written but kept readings. Raises TqError subclasses for what cannot be used, and what ``collect`` raises.
    """
    started, begun = now(), time.monotonic()
    prompts = prompts_for(plan, model)
    backend = get_backend(plan.backend)
    if certificate is None and plan.parity != "off":
        certificate = certify(quick=plan.parity == "quick", progress=progress)
    findings = collect(
        plan, model, prompts, certificate, progress, executor=executor, fresh=fresh, trials=plan.trials
    )
    record = make_record(findings, model, backend.name, command, started, time.monotonic() - begun)
    return record, findings


def timings(
    plan: Plan, model: LanguageModel, progress: Progress | None = None, contexts: Sequence[int] = (512,)
) -> list[dict[str, Any]]:
    """The thirteen measurements of the arm under test and of the uncompressed one, for the report's ``performance``.

    They depend on the machine and decide nothing; `tq bench --protocol` takes them at more lengths and beside others.
    """
    arms = plan.arms(partial(arm_on, model, ()))
    tested = arms[plan.arm]
    rows: list[dict[str, Any]] = []
    longest = min(max(contexts), model.context_length)
    for arm in (get_arm("fp16", sinks=tested.sinks), tested):
        rows += measure(
            model,
            arm,
            [min(c, longest) for c in contexts],
            get_backend(plan.backend),
            1,
            progress or (lambda *_: None),
        )
    return rows


def make_record(
    f: Findings, model: LanguageModel, backend: str, command: str, started: str, seconds: float
) -> Record:
    """Judge the findings and lay them out."""
    verdicts = [gate.judge(f) for gate in gates_for(f.plan, f)]
    missing_model = f.plan.asked_for != f.plan.model
    status = overall(verdicts)
    if f.ended or (status == "pass" and (missing_model or f.plan.not_exercised)):
        status = "incomplete"
    quality = tables.quality(f)
    statuses = backend_statuses()
    headline = {v["metric"]: v["value"] for v in quality["arms"][f.plan.arm]}
    summary = {
        "gates": count(verdicts),
        "tokens_scored": quality["tokens_scored"],
        "documents": len(f.documents),
        "prompts": sum(len(w.prompts) for w in f.workloads.values()),
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
            "statistics": {
                "unit": "prompt",
                "minimum_documents": f.plan.study.least_prompts,
                "level": tables.LEVEL,
            },
        },
        inputs=[p.describe() for w in f.workloads.values() for p in w.prompts],
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
        incomplete=f.ended,
        study=study_facts(f.plan),
        workloads=workload_rows(f),
        decisions=[d.as_dict() for d in decisions(f)],
        comparisons=comparisons(f),
        trajectories=trajectories(f),
        replies=reply_rows(f, model),
    )


def study_facts(plan: Plan) -> dict[str, Any]:
    """The study as it was registered and as it was run."""
    s = plan.study
    budgets = [
        {
            "workload": b.workload,
            "metric": b.metric,
            "budget": b.limit,
            "unit": PROMPT_METRICS[b.metric].unit,
            "why": b.why,
        }
        for b in s.budgets
    ]
    return {
        "name": s.name,
        "version": s.version,
        "sha256": plan.registered,
        "question": s.question,
        "exploratory": list(plan.exploratory),
        "budgets": budgets,
        "seeds": dict(s.seeds),
        "confidence": s.confidence,
        "file": s.file,
    }
