"""What was found: every arm's readings by workload, and the facts of its cache. The raw material of gates and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tq_core.codecs.arms import Arm, get_arm
from tq_core.kernels.backend import get_backend
from tq_core.model.interface import LanguageModel
from validation.attention_scores import AttentionScores
from validation.controls import NO_OP, PLANTED_BAD, control_seats
from validation.controls import REFERENCE as UNCOMPRESSED
from validation.engine.cell import REFERENCE, SOURCE, Held, Job, Seat
from validation.engine.execute import Executor
from validation.engine.reading import Reading
from validation.engine.readings import Readings, read_all, seats_of
from validation.fitted import arm_on
from validation.logit_scores import TokenScores
from validation.metrics import answers_right
from validation.parity_report import Certificate
from validation.plan import Plan
from validation.trials.record import Trials
from validation.trials.run import run_trials
from validation.workloads.prompt import Prompt

TOY_MODELS = ("tiny",)
CONTROL_DOCUMENTS = 2  # prompts on which attention is compared layer by layer
Progress = Callable[[str, int, int], None]


@dataclass
class ArmFindings:
    """What one arm did. ``documents`` has its scores on the primary workload, one entry per prompt."""

    name: str
    config: dict[str, Any]
    documents: list[TokenScores] = field(default_factory=list)
    ledger: dict[str, Any] = field(default_factory=dict)
    held: int = 0  # bytes found by walking the cache's objects
    unaccounted: int = 0  # of these, bytes that the ledger does not name
    parts: int = 0  # the ledger's entries summed
    seconds: float = 0.0
    answers: list[np.ndarray] = field(default_factory=list)  # per document, which were right
    attention: dict[int, AttentionScores] = field(default_factory=dict)
    kind: str = "paged"

    @property
    def scores(self) -> TokenScores:
        """Scores of all documents in order."""
        return TokenScores.join(self.documents)

    def take_held(self, held: Held) -> None:
        """Keep the ledger of the largest document, and the most that any ledger left unnamed."""
        self.unaccounted = max(self.unaccounted, held.unaccounted)
        if held.ledger["n_tokens"] >= self.ledger.get("n_tokens", 0):
            self.ledger, self.held, self.parts = held.ledger, held.held, held.parts


@dataclass
class WorkloadFindings:
    """readings[label] has one reading per prompt; arms that read only the first prompts have fewer."""

    name: str
    prompts: list[Prompt]
    readings: dict[str, list[Reading]] = field(default_factory=dict)

    def pairs(self, label: str) -> list[tuple[Reading, Reading]]:
        """(arm, reference) readings of the same prompts."""
        return list(zip(self.readings.get(label, []), self.readings.get(REFERENCE, [])))


@dataclass
class Findings:
    """All of a run: the reference, the arms (the one under test first), the controls and every workload."""

    plan: Plan
    documents: Sequence[Any]
    reference: ArmFindings
    arms: dict[str, ArmFindings]
    planted_bad: ArmFindings
    no_op: ArmFindings
    exact: list[TokenScores]  # P = float32 cache, Q = fp16 cache
    certificate: Certificate | None
    attention_layers: list[int]
    workloads: dict[str, WorkloadFindings] = field(default_factory=dict)
    controls: dict[str, tuple[str, ArmFindings]] = field(
        default_factory=dict
    )  # label -> (control, what it did)
    unkept: str = ""  # why readings could not be kept
    ended: str = ""  # why the run ended early
    trials: Trials = field(default_factory=Trials)

    @property
    def tested(self) -> ArmFindings:
        """The arm under test."""
        return self.arms[self.plan.arm]


def probed_layers(n_layers: int) -> list[int]:
    """First, last and two layers between, as far as there are so many."""
    return sorted({0, n_layers // 3, 2 * n_layers // 3, n_layers - 1})


@dataclass(frozen=True)
class Seating:
    """Who reads what: arms on every prompt, controls on the first ones of the primary workload."""

    reference: Arm
    arms: tuple[Seat, ...]
    controls: tuple[tuple[str, Seat], ...]

    def jobs(
        self, plan: Plan, prompts: Mapping[str, Sequence[Prompt]], layers: Sequence[int]
    ) -> list[tuple[str, Job]]:
        """(workload, job), one per prompt."""
        primary, seeds = plan.study.primary.name, tuple(plan.study.seeds["sampling"])
        out = []
        for name, made in prompts.items():
            for index, prompt in enumerate(made):
                seats = self.arms
                early = name == primary and index < plan.study.controls.prompts
                if early:
                    seats += tuple(seat for _, seat in self.controls)
                probed = tuple(layers) if name == primary and index < CONTROL_DOCUMENTS else ()
                job = Job(prompt, self.reference, seats, probed, seeds, plan.backend)
                out.append((name, job))
        return out


def seating(plan: Plan, arms: Mapping[str, Arm]) -> Seating:
    """The seats of a plan, its arms given fitted.

    Sinks lie in pages of their own: with as many, the reference adds in the same order while nothing is coded.
    """
    tested = arms[plan.arm]
    reference = get_arm("fp16", sinks=tested.sinks)
    beside = {n: a for n, a in arms.items() if n != plan.arm}
    seats = tuple(Seat(n, a, "paged", replies=n == plan.arm) for n, a in arms.items())
    seeds = plan.study.seeds["rotation"]
    controls = control_seats(plan.study.controls.names, tested, plan.options, beside, reference, seeds)
    # An arm that is under test needs no second reading as a control.
    return Seating(reference, seats, tuple((c, s) for c, s in controls if s.label not in arms))


def collect(
    plan: Plan,
    model: LanguageModel,
    prompts: Mapping[str, Sequence[Prompt]],
    certificate: Certificate | None,
    progress: Progress | None = None,
    *,
    executor: Executor | None = None,
    fresh: bool = False,
    trials: bool = False,
) -> Findings:
    """Read every prompt with the reference and the arms, and the first ones with the controls.

    prompts: by workload, the primary one first. trials: also try memory and identity. What was read before is taken from the kept readings unless ``fresh``.
    Interrupted, it gives the findings of the prompts that every arm has read, and ``ended`` says so. Raises the errors of
    the arms' fits and caches, and KeyboardInterrupt when no prompt of the primary workload was read whole.
    """
    every = [p for made in prompts.values() for p in made]
    arms = plan.arms(partial(arm_on, model, every))
    seated, layers = seating(plan, arms), probed_layers(model.shape.n_layers)
    jobs = seated.jobs(plan, prompts, layers)
    read = read_all(
        model,
        plan.model,
        [job for _, job in jobs],
        executor=executor,
        fresh=fresh,
        partial=True,
        progress=progress,
    )
    whole = [
        (job, readings)
        for job, readings in zip(jobs, read.by_job, strict=True)
        if len(readings) == len(seats_of(job[1]))
    ]
    if not any(name == plan.study.primary.name for (name, _), _ in whole):
        raise KeyboardInterrupt
    found = gather(plan, arms, seated, whole, read, certificate, layers)
    if trials and not found.ended:
        quick = model.name in TOY_MODELS
        found.trials = run_trials(model, arms[plan.arm], get_backend(plan.backend), progress, quick=quick)
    return found


def gather(
    plan: Plan,
    arms: Mapping[str, Arm],
    seated: Seating,
    whole: Sequence[tuple[tuple[str, Job], Mapping[str, Reading]]],
    read: Readings,
    certificate: Certificate | None,
    layers: list[int],
) -> Findings:
    """Put readings where gates and tables look for them."""
    primary = plan.study.primary.name
    plain = seated.reference.describe()
    found = Findings(
        plan=plan,
        documents=[job.prompt for (name, job), _ in whole if name == primary],
        reference=ArmFindings(UNCOMPRESSED, plain),
        arms={name: ArmFindings(name, arm.describe()) for name, arm in arms.items()},
        planted_bad=ArmFindings(PLANTED_BAD, {}),
        no_op=ArmFindings(NO_OP, plain),
        exact=[],
        certificate=certificate,
        attention_layers=layers,
        workloads={u.name: WorkloadFindings(u.name, []) for u in plan.study.workloads},
        unkept=read.unkept,
        ended=read.ended,
    )
    for control, seat in seated.controls:
        arm = ArmFindings(seat.label, seat.arm.describe(), kind=seat.kind)
        found.controls[seat.label] = (control, arm)
        if control in (PLANTED_BAD, NO_OP):
            setattr(found, control.replace("-", "_"), arm)
    found.planted_bad = found.arms.get(PLANTED_BAD, found.planted_bad)
    for (name, job), readings in whole:
        workload = found.workloads[name]
        workload.prompts.append(job.prompt)
        for label, reading in readings.items():
            workload.readings.setdefault(label, []).append(reading)
            if workload.name == primary:
                _take(found, label, job.prompt, reading)
            elif label in (REFERENCE, *found.arms) and reading.held is not None:
                _owner(found, label).take_held(reading.held)
    return found


def _owner(found: Findings, label: str) -> ArmFindings:
    if label == REFERENCE:
        return found.reference
    return found.arms[label] if label in found.arms else found.controls[label][1]


def _take(found: Findings, label: str, prompt: Prompt, reading: Reading) -> None:
    """One reading of the primary workload."""
    if label == SOURCE:
        found.exact.append(reading.scores)
        return
    arm = _owner(found, label)
    arm.seconds += reading.seconds
    if reading.held is not None:
        arm.take_held(reading.held)
    if label != REFERENCE:
        arm.documents.append(reading.scores)
    if prompt.answers:
        arm.answers.append(answers_right(reading.scores.right, prompt.answers))
    for layer, scores in reading.attention.items():
        before = [arm.attention[layer]] if layer in arm.attention else []
        arm.attention[layer] = AttentionScores.join([*before, scores])
