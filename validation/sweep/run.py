"""A sweep from its file to readings: points become seats, prompts become jobs, and nothing is read twice.

Two points whose arms are configured alike have one seat; a prompt has one job whatever the arms; every reading is kept by
what it depends on, so a stopped sweep goes on, and the next one pays only for what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import get_arm
from tq_core.errors import ModelUnavailable, TqError
from tq_core.kernels.backend import get_backend
from tq_core.model.interface import LanguageModel
from tq_core.model.zoo import load_model
from validation.compare.store import Store
from validation.engine.cell import REFERENCE, Job, Seat
from validation.engine.execute import Executor
from validation.engine.reading import Reading
from validation.engine.readings import read_all
from validation.fitted import arm_on
from validation.prompt_metrics import PROMPT_METRICS
from validation.study import WorkloadUse
from validation.sweep.file import Sweep
from validation.sweep.points import Expansion, Point, Refused, expand
from validation.workloads.catalogue import prompts_of
from validation.workloads.prompt import Prompt

Progress = Callable[[str, int, int], None]


@dataclass
class ModelRun:
    """What was read with one model. readings[workload][label] has one reading per prompt, in the prompts' order.

    labels: point -> label of its readings; points that share one were read once.
    """

    name: str
    model: LanguageModel
    prompts: dict[WorkloadUse, list[Prompt]] = field(default_factory=dict)
    arms: dict[Point, Arm] = field(default_factory=dict)
    labels: dict[Point, str] = field(default_factory=dict)
    readings: dict[WorkloadUse, dict[str, list[Reading]]] = field(default_factory=dict)


@dataclass
class Swept:
    """All of a sweep. unkept: why readings could not be kept, empty if they were."""

    sweep: Sweep
    expansion: Expansion
    models: list[ModelRun] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    computed: int = 0
    reused: int = 0
    unkept: str = ""


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())


def prepare(sweep: Sweep, points: Sequence[Point], name: str, refused: list[Refused]) -> ModelRun | None:
    """The model's prompts and arms; what it cannot have goes to ``refused``. None where the model is not to be had."""
    try:
        model = load_model(name)
    except ModelUnavailable as error:
        refused += [Refused(p, _words(error), name, available=False) for p in points]
        return None
    run = ModelRun(name, model)
    for use in sweep.workloads:
        try:
            run.prompts[use] = prompts_of(model, use.name, use.prompts, use.tokens)
        except TqError as error:
            refused += [Refused(p, _words(error), name, f"{use.name} of {use.tokens} tokens") for p in points]
    every = [p for made in run.prompts.values() for p in made]
    if not every:
        return run
    reference, backend = reference_arm(), get_backend()
    for point in points:
        try:
            arm = arm_on(model, every, point.name, **dict(point.options))
            PagedCache(model.shape, arm, backend, reserve_tokens=1)
        except TqError as error:
            refused.append(Refused(point, _words(error), name))
            continue
        run.arms[point] = arm
        same = sweep.cache == "paged" and arm.digest == reference.digest
        run.labels[point] = REFERENCE if same else arm.digest
    return run


def reference_arm() -> Arm:
    """The uncompressed cache that all points of all sweeps are held against."""
    return get_arm("fp16")


def jobs_of(sweep: Sweep, run: ModelRun) -> tuple[list[Job], dict[str, int]]:
    """One job per prompt, and which job a prompt's digest has: workloads may share prompts."""
    free = any(PROMPT_METRICS[m].needs == "reply" for m in sweep.metrics)
    arms = {run.labels[p]: arm for p, arm in run.arms.items()}
    arms.pop(REFERENCE, None)
    kind = "paged" if sweep.cache == "paged" else "simulated"
    seats = tuple(Seat(label, arm, kind, replies=free) for label, arm in arms.items())  # type: ignore[arg-type]
    found: dict[str, int] = {}
    jobs: list[Job] = []
    for made in run.prompts.values():
        for prompt in made:
            if prompt.digest not in found:
                found[prompt.digest] = len(jobs)
                jobs.append(Job(prompt, reference_arm(), seats))
    return jobs, found


def _named(progress: Progress | None, name: str) -> Progress | None:
    """Progress of one model's readings, with its name."""
    if progress is None:
        return None
    return lambda what, done, total: progress(f"{name}: {what}", done, total)


def run_sweep(
    sweep: Sweep, *, executor: Executor | None = None, store: Store | None = None, fresh: bool = False,
    progress: Progress | None = None,
) -> Swept:  # fmt: skip
    """Read every point of a sweep, or take what was kept.

    A point that an arm, a model or a workload does not allow is listed under ``refused``. Raises the errors of
    executors; stopped at any moment, the same call goes on from the readings that are kept.
    """
    out = Swept(sweep, expand(sweep))
    out.refused = list(out.expansion.refused)
    for index, name in enumerate(sweep.models):
        if progress:
            progress(f"preparing {name}", index, len(sweep.models))
        run = prepare(sweep, out.expansion.points, name, out.refused)
        if run is None:
            continue
        out.models.append(run)
        if run.arms:
            _read(out, run, executor, store, fresh, _named(progress, name))
    return out


def _read(
    out: Swept,
    run: ModelRun,
    executor: Executor | None,
    store: Store | None,
    fresh: bool,
    progress: Progress | None,
) -> None:
    jobs, where = jobs_of(out.sweep, run)
    read = read_all(run.model, run.name, jobs, executor=executor, store=store, fresh=fresh, progress=progress)
    out.computed, out.reused = out.computed + read.computed, out.reused + read.reused
    out.unkept = out.unkept or read.unkept
    for use, made in run.prompts.items():
        rows = [read.by_job[where[p.digest]] for p in made]
        labels = [REFERENCE, *dict.fromkeys(label for label in run.labels.values() if label != REFERENCE)]
        run.readings[use] = {label: [row[label] for row in rows] for label in labels}


def small(sweep: Sweep, prompts: int) -> Sweep:
    """The sweep with at most so many prompts of each workload, for a try."""
    uses = tuple(replace(u, prompts=min(u.prompts, prompts)) for u in sweep.workloads)
    return replace(sweep, workloads=uses)
