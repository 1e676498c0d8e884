"""The gates of a validation run, in the order in which the report shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tq_core.kernels.backend import backend_statuses
from validation import stats
from validation.budget_gates import budget_gates, regression
from validation.controls import PLANTED_BAD
from validation.findings import ArmFindings, Findings
from validation.gates import Gate, Measured
from validation.plan import KL, TOP1, Plan
from validation.repeat import trial_command, validate_command
from validation.rules_of_memory import trial_gates
from validation.trials.record import Trials

ONE_SIDED = 0.90  # a two-sided 90 % interval's end is a one-sided 95 % bound
LEAST_CHANGED = 0.5
RETRIEVAL_LOSS = 0.1
RETRIEVAL_FLOOR = 0.5
NOTHING_MEASURED = Measured(None, "no document was read")


def parity_bits(f: Findings) -> Measured:
    """Differing bits over kernels, cases and backends."""
    c = f.certificate
    if c is None or c.bits_compared == 0:
        return Measured(None, "the parity check was left out")
    first = f"; first: {c.differences[0]}" if c.differences else ""
    pairs = len({r.backend for r in c.rows})
    return Measured(
        c.differing_bits,
        f"{c.bits_compared:,} bits, {c.cases} of {c.cases_known} cases, {pairs} backends against numpy{first}",
    )


def parity_coverage(f: Findings) -> Measured:
    """Backends that this machine should have and lacks: then the parity claim was not fully exercised."""
    if f.certificate is None:
        return Measured(None, "the parity check was left out")
    missing = f.certificate.missing
    if missing:
        return Measured(None, "missing: " + "; ".join(f"{m['name']} ({m['reason']})" for m in missing))
    running = sum(1 for s in backend_statuses() if s.available)
    return Measured(0, f"{running} backends run here, every one that this machine should have")


def tokens_compressed(f: Findings) -> Measured:
    """Tokens in packed pages at the end of the longest document."""
    ledger = f.tested.ledger
    if not ledger:
        return NOTHING_MEASURED
    kept = f"{ledger['tokens_recent']} recent and {ledger['tokens_sink']} sink tokens in fp16"
    stored = ", ".join(f"{name} {size:,} B" for name, size in ledger["payload"].items()) or "no packed stream"
    return Measured(
        ledger["tokens_compressed"], f"of {ledger['n_tokens']} tokens in each layer; {kept}; stored: {stored}"
    )


def output_changed(f: Findings) -> Measured:
    """Share of scored tokens whose logits differ from the uncompressed cache's."""
    if not f.tested.documents:
        return NOTHING_MEASURED
    difference = f.tested.scores.max_difference
    changed = difference > 0
    if 0 < changed.mean() < LEAST_CHANGED:
        return Measured(
            None,
            f"only {changed.mean():.0%} of the scored tokens saw a compressed token; longer documents are needed",
        )
    return Measured(
        float(changed.mean()),
        f"{int(changed.sum()):,} of {len(changed):,} scored tokens; largest logit difference {difference.max():.3g}",
    )


def window_exact(f: Findings) -> Measured:
    """Largest logit difference while every token is still in the fp16 window or a sink."""
    kept = f.tested.config["sinks"] + (f.tested.config["window"] or 0)
    if f.tested.config["window"] is None or kept == 0:
        return Measured(None, "this arm keeps no token in fp16")
    rows = [d.max_difference[:kept] for d in f.tested.documents]
    if f.workloads:
        readings = [r for w in f.workloads.values() for r in w.readings.get(f.plan.arm, [])]
        # Position p is predicted from p tokens, all of which are in fp16 up to ``kept``.
        rows = [r.scores.max_difference[: max(0, kept + 1 - r.first)] for r in readings]
        rows = [r for r in rows if len(r)]
    if not rows:
        return Measured(None, f"no scored position lies within the first {kept} tokens")
    worst = max(float(r.max()) for r in rows)
    return Measured(worst, f"first {kept} positions of {len(rows)} prompts, {sum(map(len, rows)):,} tokens")


def shadow_bytes(f: Findings) -> Measured:
    """Bytes that the cache's objects hold and its ledger does not name."""
    if not f.tested.ledger:
        return NOTHING_MEASURED
    return Measured(
        f.tested.unaccounted + f.tested.ledger["decoded_shadow"],
        f"walking the cache's objects found {f.tested.held:,} B; alignment of the three pools is allowed for",
    )


def token_bytes(f: Findings) -> float:
    """Bytes of one token's keys and values in fp16, all layers: less than that cannot hide a history."""
    ledger = f.tested.ledger
    return ledger["baselines"]["fp16"] / ledger["n_tokens"] if ledger else 0.0


def ledger_balance(f: Findings) -> Measured:
    """Ledger total minus the sum of its entries."""
    if not f.tested.ledger:
        return NOTHING_MEASURED
    total = f.tested.ledger["total"]
    return Measured(abs(total - f.tested.parts), f"entries sum to {f.tested.parts:,} B, total {total:,} B")


def memory_share(f: Findings) -> Measured:
    """Everything that the arm holds at its longest, as a share of what the fp16 cache holds."""
    arm, reference = f.tested.ledger, f.reference.ledger
    if not arm or not reference:
        return NOTHING_MEASURED
    return Measured(
        arm["total"] / reference["total"],
        f"{arm['total']:,} B (scratch, tables and spare pages included) against {reference['total']:,} B at {arm['n_tokens']} tokens",
    )


def kl_bound(f: Findings) -> Measured:
    """One-sided 95 % upper bound of the mean KL."""
    return regression(f, KL) if f.workloads else _bound(f.tested, "kl", upper=True, seed=f.plan.seed)


def top1_bound(f: Findings) -> Measured:
    """One-sided 95 % lower bound of the top-1 agreement."""
    if f.workloads:
        lost = regression(f, TOP1)
        return Measured(None if lost.value is None else 1 - lost.value, lost.evidence)
    return _bound(f.tested, "same_top", upper=False, seed=f.plan.seed)


def negative_control(f: Findings) -> Measured:
    """Mean KL of the planted bad arm; the budget must stop it."""
    if not f.planted_bad.documents:
        return NOTHING_MEASURED
    value = float(np.mean([d.kl.mean() for d in f.planted_bad.documents]))
    return Measured(
        value, f"{PLANTED_BAD}: 2-bit keys and values, no window; {len(f.planted_bad.documents)} prompts"
    )


def no_op(f: Findings) -> Measured:
    """Largest logit difference between two uncompressed caches."""
    if not f.no_op.documents:
        return NOTHING_MEASURED
    scores = f.no_op.scores
    return Measured(float(scores.max_difference.max()), f"fp16 against fp16, {len(scores):,} tokens")


def retrieval_loss(f: Findings) -> Measured:
    """Share of answers that the uncompressed cache finds and the arm does not: its 95 % lower bound."""
    if not f.tested.answers:
        return Measured(None, "these documents have no answers to retrieve")
    ours, theirs = np.concatenate(f.tested.answers), np.concatenate(f.reference.answers)
    lost, gained, n = int((theirs & ~ours).sum()), int((ours & ~theirs).sum()), len(ours)
    evidence = f"{n} answers: fp16 {theirs.mean():.3f}, arm {ours.mean():.3f}; {lost} lost, {gained} gained"
    if theirs.mean() < RETRIEVAL_FLOOR:
        return Measured(None, f"no information: the uncompressed cache is at the floor ({evidence})")
    return Measured(stats.share_at_least(lost, n), evidence)


def _bound(arm: ArmFindings, column: str, upper: bool, seed: int) -> Measured:
    if not arm.documents:
        return NOTHING_MEASURED
    rows = [np.asarray(getattr(d, column), np.float64) for d in arm.documents]
    found = stats.interval(rows, ONE_SIDED, seed)
    mean = float(np.mean([r.mean() for r in rows]))
    bound = found.high if upper else found.low
    worst = max(rows, key=lambda r: r.mean() if upper else -r.mean()).mean()
    evidence = f"mean {mean:.4f}, worst document {worst:.4f}; {'upper' if upper else 'lower'} bound by {found.method}, covers {found.covers}"
    return Measured(
        float("nan") if bound is None else bound, f"{evidence}; {found.note}" if found.note else evidence
    )


def gates_for(plan: Plan, findings: Findings) -> list[Gate[Findings]]:
    """The gates of this run; those that cannot apply to the arm or the model are left out."""
    config = findings.tested.config
    gates: list[Gate[Findings]] = [
        Gate("parity", "Every backend gives the numpy reference's bits.", parity_bits, "==", 0, "bits",
             "The kernels promise equal bits; one bit that differs is a defect and not noise."),
        Gate("parity-coverage", "No backend that this machine should have is missing.", parity_coverage, "==", 0, "backends",
             "A backend that silently does not run would make the parity claim smaller than it reads."),
        Gate("tokens-compressed", "Tokens really left the fp16 window for packed pages.", tokens_compressed, ">=", 1, "tokens",
             "A run inside the window compresses nothing and would pass every quality gate."),
        Gate("output-changed", "Compression reached the model's output.", output_changed, ">=", LEAST_CHANGED, "share of tokens",
             "If most scored tokens saw no compressed token, the means below would be diluted by exact zeros."),
        Gate("no-shadow", "No decoded copy of the history is kept.", shadow_bytes, "<", token_bytes(findings), "bytes",
             "Fewer bytes than one decoded token takes cannot hold a history."),
        Gate("ledger", "The ledger's entries add up to its total.", ledger_balance, "==", 0, "bytes",
             "Bytes that no entry owns are how compression ratios get prettier than memory use."),
        Gate("memory", "The arm holds less than the fp16 cache at the tested length, everything counted.", memory_share, "<", 1, "share of fp16",
             "Compression that needs more memory than no compression has no purpose."),
        Gate("no-op", "Two uncompressed caches give the same logits.", no_op, "==", 0, "logit difference",
             "Any difference here would be noise of the harness, counted as an effect of compression."),
    ]  # fmt: skip
    if config["window"] is not None and config["window"] + config["sinks"] > 0:
        exact: Gate[Findings] = Gate(
            "window-exact", "While all tokens fit into the window, the output is the fp16 cache's to the bit.", window_exact, "==", 0,
            "logit difference", "Window and pages must agree on every shift and scale; a difference before anything is packed is a wiring fault.",
        )  # fmt: skip
        gates.insert(4, exact)
    metrics = {b.metric for b in plan.study.budgets if b.workload == plan.study.primary.name}
    if KL in metrics:
        gates += [
            Gate("kl", "Mean next-token KL stays within the budget.", kl_bound, "<=", plan.kl_budget, "nats", plan.kl_why),
            Gate("negative-control", "The same prompts and budget stop an arm that is bad on purpose.", negative_control, ">",
                 plan.kl_budget, "nats", "A budget that a ruined arm meets decides nothing."),
        ]  # fmt: skip
    if TOP1 in metrics:
        gates.append(
            Gate("top1", "The most likely next token stays the same.", top1_bound, ">=", plan.top1_budget, "share of tokens", plan.top1_why)
        )  # fmt: skip
    if any(d.answers for d in findings.documents):
        why = (
            "So few answers cannot show a loss of a few points (2 points would need about 800), "
            "so this gate stops a collapse and nothing finer."
        )
        claim = "Answers from far back are still found: a loss above one in ten is not shown."
        gates.append(
            Gate("retrieval", claim, retrieval_loss, "<=", RETRIEVAL_LOSS, "share lost, lower bound", why)
        )
    gates += budget_gates(findings)
    again = validate_command(plan)
    parity = {"parity": "tq parity", "parity-coverage": "tq parity --strict"}
    gates = [replace(g, command=parity.get(g.name, again)) for g in gates]
    return [*gates, *(_of_findings(g, plan) for g in trial_gates(findings.trials))]


def _of_findings(gate: Gate[Trials], plan: Plan) -> Gate[Findings]:
    """A gate over trials as one over the findings that they are part of."""
    measure: Callable[[Findings], Measured] = lambda f: gate.measure(f.trials)  # noqa: E731
    command = trial_command(gate.name, plan.model, plan.arm, plan.options)
    return Gate(
        gate.name, gate.claim, measure, gate.op, gate.limit, gate.unit, gate.why, command, gate.volatile
    )
