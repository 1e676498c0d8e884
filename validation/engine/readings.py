"""All readings of a run: those that are kept are taken, the others computed and kept at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tq_core.kernels.backend import get_backend
from tq_core.model.interface import LanguageModel
from tq_core.paths import cache_dir
from validation.compare.store import Store
from validation.engine.cell import REFERENCE, Job, Seat
from validation.engine.execute import Executor, Serial, WorkerLost
from validation.engine.keys import reading_key
from validation.engine.reading import Reading

Progress = Callable[[str, int, int], None]


@dataclass
class Readings:
    """by_job[i][label] is the reading of job i.

    unkept: why readings could not be kept, empty if they were. ended: why the run ended early, empty for a whole one.
    """

    by_job: list[dict[str, Reading]]
    computed: int = 0
    reused: int = 0
    unkept: str = ""
    ended: str = ""


def default_store(folder: Path | None = None) -> Store:
    """Readings lie in the user's cache directory: a stopped run goes on, and a sweep pays once for what it shares."""
    return Store(rows=folder or cache_dir() / "readings")


def read_all(
    model: LanguageModel,
    name: str,
    jobs: Sequence[Job],
    *,
    executor: Executor | None = None,
    store: Store | None = None,
    fresh: bool = False,
    partial: bool = False,
    progress: Progress | None = None,
) -> Readings:
    """Readings of every job. name: what ``load_model`` takes. fresh: take nothing that was kept.

    Stopped at any moment, what was computed so far is kept; with ``partial`` it is also returned, and ``ended`` says why. A full disk does not end the run: the readings are then
    only in memory, and ``unkept`` says so. progress: of what is computed, kept readings left out. Raises what an arm's cache raises.
    """
    store = store or default_store()
    out = Readings([{} for _ in jobs])
    missing: list[tuple[int, Job]] = []
    keys: list[dict[str, str]] = []
    for index, job in enumerate(jobs):
        backend = get_backend(job.backend).name
        keys.append({label: reading_key(model, job, seat, backend) for label, seat in seats_of(job)})
        lost = tuple(
            s for s in job.seats if fresh or not _take(out, index, s.label, keys[index][s.label], store)
        )
        own = not fresh and _take(out, index, REFERENCE, keys[index][REFERENCE], store)
        if lost or not own:
            missing.append((index, replace(job, seats=lost, fresh=fresh)))
    total = sum(1 + len(job.seats) for job in jobs)
    # What was kept is no work: counted as done, it would make the time that is left look short.
    kept = f", {out.reused} more were kept" if out.reused else ""
    try:
        for position, label, row in (executor or Serial()).run(name, [job for _, job in missing]):
            index = missing[position][0]
            if label in out.by_job[index]:
                continue  # the reference, read again because an arm was missing
            out.by_job[index][label] = Reading.of_row(row)
            out.computed += 1
            try:
                store.keep_row(keys[index][label], row)
            except OSError as error:
                out.unkept = f"{store.rows}: {error.strerror}"
            if progress:
                told = f"readings, now {jobs[index].prompt.name}{kept}"
                progress(told, out.computed, total - out.reused)
    except (KeyboardInterrupt, WorkerLost) as error:
        if not partial:
            raise
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        out.ended = f"{why}; {out.reused + out.computed} of {total} readings were there"
    return out


def seats_of(job: Job) -> list[tuple[str, Seat | None]]:
    """Label and seat of every reading of a job, the reference's first."""
    return [(REFERENCE, None), *((s.label, s) for s in job.seats)]


def _take(out: Readings, index: int, label: str, key: str, store: Store) -> bool:
    row = store.row(key)
    if row is None:
        return False
    try:
        out.by_job[index][label] = Reading.of_row(row)
    except (KeyError, TypeError, ValueError):
        return False  # kept by another version
    out.reused += 1
    return True
