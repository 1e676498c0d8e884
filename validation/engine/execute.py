"""Where jobs are computed: in this process, or in several on this machine. The readings are the same to the bit."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol

from tq_core.errors import TqError, ValueRangeError, check
from tq_core.model.zoo import load_model
from validation.engine.arithmetic import arithmetic
from validation.engine.cell import Job, compute
from validation.engine.reading import Row

MOST_PROCESSES = 256
Answer = tuple[int, str, Row]  # index of the job, label of the seat, its reading


class WorkerLost(TqError):
    """A process that computed readings ended before it gave them."""


class WorkerDiffers(TqError):
    """A process rounds otherwise than the one that asked it, so its readings would have other bits."""


class Executor(Protocol):
    """Computes jobs and gives readings in whatever order they are ready."""

    def run(self, model: str, jobs: Sequence[Job]) -> Iterator[Answer]: ...


def one_job(model: str, job: Job) -> list[tuple[str, Row]]:
    """All readings of a job, as rows that can travel. The model is loaded once per process."""
    return [(label, reading.as_row()) for label, reading in compute(job, load_model(model))]


def checked_job(model: str, job: Job, expected: str) -> list[tuple[str, Row]]:
    """``one_job`` in a process whose ``arithmetic`` is the expected one. Raises WorkerDiffers."""
    found = arithmetic()
    check(found == expected, "workers: arithmetic", expected[:16], found[:16], WorkerDiffers)
    return one_job(model, job)


class Serial:
    """One job after the other; each reading is given as soon as it is there."""

    def run(self, model: str, jobs: Sequence[Job]) -> Iterator[Answer]:
        """Readings in the order of the jobs."""
        for index, job in enumerate(jobs):
            for label, reading in compute(job, load_model(model)):
                yield index, label, reading.as_row()


class Processes:
    """``count`` processes of this machine, each with its own copy of the model. Raises ValueRangeError for a count outside 1..256."""

    def __init__(self, count: int) -> None:
        check(1 <= count <= MOST_PROCESSES, "workers", f"1..{MOST_PROCESSES}", count, ValueRangeError)
        self._count = count

    def run(self, model: str, jobs: Sequence[Job]) -> Iterator[Answer]:
        """Readings as jobs end; an error of a job ends the run, and what came before it has been given.

        Raises WorkerLost when a process ends by itself, for want of memory for example, and WorkerDiffers when one rounds
        otherwise than this one, as another number of threads of its matrix products makes it.
        """
        # A forked child would share the parent's interpreter of C++, which is not made for that.
        expected = arithmetic()
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(self._count, max(1, len(jobs))), mp_context=context) as pool:
            waiting: dict[Future[list[tuple[str, Row]]], int] = {}
            try:
                waiting = {pool.submit(checked_job, model, job, expected): i for i, job in enumerate(jobs)}
                while waiting:
                    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in done:
                        index = waiting.pop(future)
                        for label, row in future.result():
                            yield index, label, row
            except BrokenProcessPool as error:
                raise WorkerLost(
                    "workers: expected every process to end its job, got one that was killed (too little memory?); "
                    "what was read so far is kept"
                ) from error
            finally:
                for future in waiting:
                    future.cancel()


def executor_for(workers: int = 1, scheduler: str | None = None) -> Executor:
    """A Dask cluster where a scheduler's address is given, else this process for 1, else so many.

    Raises ValueRangeError for both at once and ClusterError where the package distributed is missing.
    """
    if scheduler is not None:
        check(workers == 1, "workers", "none beside a scheduler, which has its own", workers, ValueRangeError)
        from validation.engine.dask_executor import DaskExecutor

        return DaskExecutor(scheduler)
    return Serial() if workers == 1 else Processes(workers)
