"""The sentences of a report: verdict, claims with their kind of evidence, and what is not shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tq_core.kernels.backend import BackendStatus
from validation.findings import Findings
from validation.gates import Verdict
from validation.stats import MIN_DOCUMENTS
from validation.workloads.catalogue import get

TOY_MODELS = ("tiny",)
_OPENING = {
    "pass": "PASS: every gate held.",
    "fail": "FAIL: {n} of {total} gates did not hold.",
    "incomplete": "INCOMPLETE: nothing failed, but not everything was exercised.",
}


def verdict(status: str, verdicts: Sequence[Verdict], f: Findings, summary: dict[str, Any]) -> list[str]:
    """The verdict in words, the conclusion first, then what it rests on."""
    failed = [v for v in verdicts if v.status == "fail"]
    out = [_OPENING[status].format(n=len(failed), total=len(verdicts))]
    if f.ended:
        out = ["INCOMPLETE: not everything was read."]
        out.append(f"The run ended early: {f.ended}. The same command goes on from there.")
    if f.plan.exploratory:
        out.append(
            f"EXPLORATORY: this run departs from the study {f.plan.study.name}: {'; '.join(f.plan.exploratory)}."
        )
    if f.plan.model in TOY_MODELS:
        wish = (
            f"{f.plan.asked_for} was asked for and could not be had; "
            if f.plan.asked_for != f.plan.model
            else ""
        )
        about = "a small model trained on a synthetic task"
        out.append(f"The real model was NOT exercised: {wish}this run used {f.plan.model}, {about}.")
    out += [f"Failed: {v.claim} ({v.name}: {_value(v)}, limit {v.op} {v.limit:g} {v.unit})" for v in failed]
    absent = [v.name for v in verdicts if v.status == "not exercised"]
    if absent:
        out.append(f"Gates not exercised: {', '.join(absent)}.")
    out.append(
        f"Arm {f.plan.arm} on {f.plan.model}: mean next-token KL {summary['kl_mean']:.4g} nats and the same top token on "
        f"{100 * summary['top1_agreement']:.1f} % of {summary['tokens_scored']:,} scored tokens of {f.plan.study.primary.name}, "
        f"against the fp16 cache; "
        f"{summary['bits_all_in']:.2f} bits per channel all-in; {100 * summary['memory_share_of_fp16']:.0f} % of the fp16 "
        f"cache's bytes at {f.tested.ledger['n_tokens']} tokens."
    )
    return out


def _value(v: Verdict) -> str:
    return "not a finite number" if v.value is None else f"{v.value:.4g}"


def claims(f: Findings, summary: dict[str, Any]) -> list[dict[str, Any]]:
    """What the report claims, each with its kind of evidence and where that is."""
    out = [
        ("measured-here", f"Mean KL of {f.plan.arm} against fp16 is {summary['kl_mean']:.4g} nats on these texts.", ["quality"]),
        ("measured-here", "Bytes are counted from the buffers that the cache holds.", ["memory", "effect"]),
        ("calculated", "fp32, fp16, fp8 and q8_0 figures are what the same tokens would take; those caches were not built, but for fp16.", ["memory"]),
        ("paper-claim", "That a random rotation makes coordinates near-Gaussian, so that one codebook serves all, is TurboQuant's (arXiv 2504.19874); rotation with a scalar codebook is older (DRIVE, EDEN, HIGGS).", []),
    ]  # fmt: skip
    if f.certificate is not None:
        c = f.certificate
        text = f"{c.differing_bits} of {c.bits_compared:,} compared bits differ between backends ({c.scope})."
        out.insert(1, ("measured-here", text, ["parity"]))
    return [{"label": label, "text": text, "evidence": evidence} for label, text, evidence in out]


def not_shown(f: Findings) -> list[str]:
    """What a reader might take the report for and must not."""
    n = len(f.documents)
    longest = max(p.longest for w in f.workloads.values() for p in w.prompts)
    out = [
        f"Contexts longer than {longest} tokens.",
        "Behaviour that no workload of this run asks for; a small divergence does not rule out that it changes.",
        "Other models, other machines, and other rotation seeds than the one in the configuration.",
        "Speed: the times below include the measuring itself and decide nothing.",
    ]
    if not any(r.generated for w in f.workloads.values() for rows in w.readings.values() for r in rows):
        out.insert(
            1, "Answers as a user would read them: scores are of forced tokens, nothing was generated."
        )
    out += [f"By {w.name}: {get(w.name).cannot_show}" for w in f.workloads.values()]
    if n < MIN_DOCUMENTS:
        out.insert(
            0,
            f"Other prompts: {n} of {f.plan.study.primary.name} (fewer than {MIN_DOCUMENTS}) give no interval over prompts.",
        )
    windows = {
        name: a.config["window"] + a.config["flush_tokens"] - 1
        for name, a in f.arms.items()
        if a.config["window"] is not None
    }
    if len(set(windows.values())) > 1:
        held = ", ".join(f"{name} up to {w}" for name, w in windows.items())
        out.append(
            f"The arms under one and the same fp16 mask: they keep different numbers of recent tokens in fp16 ({held})."
        )
    if f.plan.model == "tiny":
        out.insert(
            0,
            "The quality of any real language model: the tiny model knows about a hundred words and one task.",
        )
    return out


def not_exercised(f: Findings, verdicts: Sequence[Verdict], statuses: Sequence[BackendStatus]) -> list[str]:
    """Gates, backends and models that could have been exercised and were not, with the reason."""
    out = list(f.plan.not_exercised)
    if f.plan.model in TOY_MODELS and not out:
        out.append(f"Real model: the run was asked for {f.plan.asked_for}.")
    if f.unkept:
        out.append(f"Keeping the readings, so that a stopped run goes on: {f.unkept}.")
    out += [f"Gate {v.name}: {v.evidence}." for v in verdicts if v.status == "not exercised"]
    out += [f"Backend {s.name}: {s.reason}." for s in statuses if not s.available]
    if f.certificate is not None and f.certificate.scope != "all cases":
        c = f.certificate
        out.append(
            f"Parity on all cases: {c.cases} of {c.cases_known} were compared; `tq parity` compares them all."
        )
    return out
