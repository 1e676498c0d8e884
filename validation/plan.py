"""The settings of a run, fixed before it starts: a study, the arm under test, and every departure from the study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tq_core.codecs.arms import Arm
from tq_core.errors import ValueRangeError, check
from validation.controls import arm_for
from validation.study import PARITY_SCOPES, Budget, Study, WorkloadUse
from validation.study_file import default_study, fits

KL, TOP1 = "kl_mean", "top1_agreement"


@dataclass(frozen=True)
class Plan:
    """model: a name or a path. options: of the arm under test. study: as it will be run, departures included.

    registered: the study's digest before any departure. exploratory: the departures in words; with any, the run decides
    nothing that was registered and says so. Raises ValueRangeError for a budget, seed or amount outside its range.
    """

    model: str
    arm: str
    comparators: tuple[str, ...]
    options: Mapping[str, Any]
    study: Study
    registered: str
    exploratory: tuple[str, ...] = ()
    backend: str | None = None
    trials: bool = True
    asked_for: str = ""
    not_exercised: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        s = self.study
        check(
            s.parity in PARITY_SCOPES,
            "parity",
            f"one of {', '.join(PARITY_SCOPES)}",
            s.parity,
            ValueRangeError,
        )
        seed = s.seeds["resampling"]
        check(0 <= seed < 2**63, "seed", "0..2^63-1", seed, ValueRangeError)
        for use in s.workloads:
            check(use.prompts >= 1, "prompts", "at least 1 per workload", use.prompts, ValueRangeError)

    @property
    def seed(self) -> int:
        """Of the resampling."""
        return int(self.study.seeds["resampling"])

    @property
    def parity(self) -> str:
        """Scope of the parity check."""
        return self.study.parity

    @property
    def kl_budget(self) -> float:
        """Most that the mean KL of the primary workload may be, nats. Raises ValueRangeError where the study has no such budget."""
        return self.study.budget(KL).limit

    @property
    def kl_why(self) -> str:
        """Reason for that limit."""
        return self.study.budget(KL).why

    @property
    def top1_budget(self) -> float:
        """Least share of equal top tokens in the primary workload. Raises ValueRangeError where the study has no such budget."""
        return 1 - self.study.budget(TOP1).limit

    @property
    def top1_why(self) -> str:
        """Reason for that limit."""
        return self.study.budget(TOP1).why

    def arms(self, make: Callable[..., Arm] = arm_for) -> dict[str, Arm]:
        """The arm under test first, then those it is compared with, as ``make(name, **options)`` has them.

        Raises CodecError.
        """
        window = {k: v for k, v in self.options.items() if k in ("window", "sinks")}
        tested = make(self.arm, **self.options)
        return {self.arm: tested, **{n: make(n, **window) for n in self.comparators if n != self.arm}}

    def describe(self) -> dict[str, Any]:
        """JSON-able form."""
        return {
            "model": self.model,
            "arm": self.arm,
            "comparators": list(self.comparators),
            "options": dict(self.options),
            "study": self.study.describe(),
            "registered": self.registered,
            "exploratory": list(self.exploratory),
            "backend": self.backend,
            "trials": self.trials,
            "asked_for": self.asked_for,
            "not_exercised": list(self.not_exercised),
        }


def make_plan(
    model: str = "tiny",
    arm_names: Sequence[str] | None = None,
    *,
    study: Study | None = None,
    options: Mapping[str, Any] | None = None,
    prompts: int | None = None,
    length: int | None = None,
    workloads: Sequence[str] | None = None,
    kl_budget: float | None = None,
    top1_budget: float | None = None,
    parity: str | None = None,
    seed: int | None = None,
    backend: str | None = None,
    trials: bool = True,
    asked_for: str = "",
    not_exercised: Sequence[str] = (),
) -> Plan:
    """A plan after a study, the model's shipped one if None. The first of ``arm_names`` is under test.

    prompts: at most so many of each workload; trials: whether memory and identity are tried; length: tokens per prompt; workloads: only these. Whatever departs from the
    study makes the run exploratory. Raises ValueRangeError or CodecError for what a run could not use.
    """
    registered = study or default_study(model)
    names = tuple(arm_names) if arm_names else registered.arms[:1]
    beside = names[1:] if len(names) > 1 else registered.beside
    beside = tuple(n for n in beside if n != names[0])
    said: list[str] = []
    if not fits(registered, model):
        said.append(f"model {model}, where the study has {registered.model}")
    if names[0] not in registered.arms:
        said.append(f"arm {names[0]}, which the study does not list")
    if len(names) > 1 and beside != tuple(n for n in registered.beside if n != names[0]):
        said.append(f"compared with {', '.join(beside) or 'nothing'}")
    given = {k: v for k, v in (options or {}).items() if v is not None}
    said += [f"{name} {value}" for name, value in sorted(given.items())]
    if backend is not None:
        said.append(f"backend {backend}")
    if not trials:
        said.append("memory and identity were not tried")
    changed = _amounts(registered, prompts, length, workloads)
    changed = _budgets(changed, kl_budget, top1_budget)
    if parity is not None:
        changed = replace(changed, parity=parity)
    if seed is not None:
        changed = replace(changed, seeds={**changed.seeds, "resampling": seed})
    said += _differences(registered, changed)
    plan = Plan(
        model, names[0], beside, given, changed, registered.sha256, tuple(said), backend, trials, asked_for or model,
        tuple(not_exercised),
    )  # fmt: skip
    plan.arms()
    return plan


def _amounts(study: Study, prompts: int | None, length: int | None, names: Sequence[str] | None) -> Study:
    uses = study.workloads
    if names is not None:
        known = [u.name for u in uses]
        for name in names:
            check(name in known, "workload", f"one of {', '.join(known)}", repr(name), ValueRangeError)
        uses = tuple(u for u in uses if u.name in names)
    if prompts is not None:
        check(prompts >= 1, "prompts", "at least 1 per workload", prompts, ValueRangeError)
        uses = tuple(replace(u, prompts=min(u.prompts, prompts)) for u in uses)
    if length is not None:
        check(length >= 2, "length", "at least 2 tokens", length, ValueRangeError)
        uses = tuple(replace(u, tokens=length) for u in uses)
    used = {u.name for u in uses}
    budgets = tuple(b for b in study.budgets if b.workload in used)
    comparisons = tuple(c for c in study.comparisons if c.workload in used)
    return replace(study, workloads=uses, budgets=budgets, comparisons=comparisons)


def _budgets(study: Study, kl: float | None, top1: float | None) -> Study:
    finite = kl is None or 0 < kl < float("inf")
    check(finite, "kl_budget", "a finite number of nats, more than 0", kl, ValueRangeError)
    check(top1 is None or 0 < top1 <= 1, "top1_budget", "a share in 0..1, not 0", top1, ValueRangeError)
    for metric, given in ((KL, kl), (TOP1, top1)):
        if given is not None:
            study.budget(metric)  # a limit of nothing would be dropped in silence
    limits = {KL: kl, TOP1: None if top1 is None else max(1 - top1, 1e-12)}
    budgets: list[Budget] = []
    for budget in study.budgets:
        limit = limits.get(budget.metric) if budget.workload == study.primary.name else None
        if limit is not None and limit != budget.limit:
            budget = replace(budget, limit=limit, why="set by the caller")
        budgets.append(budget)
    return replace(study, budgets=tuple(budgets))


def _differences(registered: Study, changed: Study) -> list[str]:
    said: list[str] = []
    kept: dict[str, WorkloadUse] = {u.name: u for u in changed.workloads}
    for use in registered.workloads:
        now = kept.get(use.name)
        if now is None:
            said.append(f"workload {use.name} left out")
        elif now != use:
            said.append(
                f"{now.prompts} prompts of {now.tokens} tokens of {use.name}, where the study has {use.prompts} of {use.tokens}"
            )
    limits = {(b.workload, b.metric): b.limit for b in registered.budgets}
    for budget in changed.budgets:
        if budget.limit != limits[budget.workload, budget.metric]:
            said.append(f"budget of {budget.metric} on {budget.workload}: {budget.limit:g}")
    if changed.parity != registered.parity:
        said.append(f"parity {changed.parity}")
    if changed.seeds != registered.seeds:
        said.append(f"seeds {dict(changed.seeds)}")
    return said
