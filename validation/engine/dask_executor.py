"""Jobs on a Dask cluster: the same readings to the bit, or an error that names the worker. The only importer of distributed.

A job is one task. Arms travel once and stay on every worker; rows come back to this process, which alone keeps them. A
worker that dies is replaced by Dask; a worker that would round otherwise is refused, also when it joins later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import Any

from tq_core.codecs.arm import Arm
from tq_core.errors import TqError
from tq_core.kernels.backend import get_backend
from validation.engine.cell import Job, Seat
from validation.engine.execute import Answer, one_job
from validation.engine.reading import Row
from validation.engine.worker_facts import differences, facts

CONNECT_SECONDS = 20.0
NO_WORKER_SECONDS = 60.0  # so long without any worker, and the run gives up
ROUNDS = 3  # times that a job may be sent again after everything that held its arms was lost
POLL_SECONDS = 1.0
# A worker may be given several threads; the readings of a process are computed one after the other all the same.
_ONE_AT_A_TIME = threading.Lock()


class ClusterError(TqError):
    """A Dask cluster cannot be reached, has no workers, loses jobs for good, or would give other bits."""


@dataclass(frozen=True)
class _Parcel:
    """A job without its arms: ``seats`` have None there, and their digests are in ``arms``, the reference's first."""

    job: Job
    arms: tuple[str, ...]


def _stripped(job: Job) -> _Parcel:
    nobody: Any = None
    seats = tuple(replace(seat, arm=nobody) for seat in job.seats)
    # The backend is named here, since it is part of what rows are kept under: a worker must not choose its own.
    job_only = replace(job, reference=nobody, seats=seats, backend=get_backend(job.backend).name)
    return _Parcel(job_only, (job.reference.digest, *(s.arm.digest for s in job.seats)))


def _task(
    model: str, parcel: _Parcel, arms: Sequence[Arm], expected: dict[str, str]
) -> list[tuple[str, Row]]:
    """On a worker: all readings of a job."""
    wrong = differences(expected, facts())
    if wrong:
        raise ClusterError(f"worker {_own_address()} would give other bits: {'; '.join(wrong)}")
    seats: tuple[Seat, ...] = tuple(
        replace(seat, arm=arm) for seat, arm in zip(parcel.job.seats, arms[1:], strict=True)
    )
    with _ONE_AT_A_TIME:
        return one_job(model, replace(parcel.job, reference=arms[0], seats=seats))


def _own_address() -> str:
    from distributed import get_worker

    return str(get_worker().address)


def _words(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class DaskExecutor:
    """Workers of the scheduler at ``address``, such as tcp://host:8786. Raises ClusterError when distributed is not installed."""

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError as error:
            raise ClusterError(
                "scheduler: expected the package distributed, got none; pip install 'tq-workbook[sweep]'"
            ) from error
        self._distributed: Any = distributed
        self._address = address

    def run(self, model: str, jobs: Sequence[Job]) -> Iterator[Answer]:
        """Readings as jobs end, in any order. Raises ClusterError, and what a job raises; what came before has been given."""
        if not jobs:
            return
        # What it would log in many lines is raised here in one.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        with self._client() as client:
            self._check_workers(client)
            left = dict(enumerate(jobs))
            for _ in range(ROUNDS):
                yield from self._round(client, model, left)
                if not left:
                    return
            raise ClusterError(
                f"scheduler {self._address}: {len(left)} jobs were lost {ROUNDS} times, the first is {left[min(left)].prompt.name}"
            )

    def _client(self) -> Any:
        try:
            return self._distributed.Client(
                self._address, timeout=CONNECT_SECONDS, name="tq", set_as_default=False
            )
        except (OSError, ValueError, TimeoutError, TypeError) as error:
            raise ClusterError(
                f"scheduler: expected a Dask scheduler at {self._address}, got {_words(error)}"
            ) from error

    def _check_workers(self, client: Any) -> None:
        """Raise ClusterError unless there are workers and all of them compute as this process does."""
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            raise ClusterError(f"scheduler {self._address}: expected at least 1 worker, got none") from error
        expected, wrong = facts(), []
        for address, found in sorted(self._facts_of_workers(client).items()):
            if isinstance(found, OSError):
                continue  # it has just gone; should it come back, its first task checks it
            said = [_words(found)] if isinstance(found, BaseException) else differences(expected, found)
            wrong += [f"worker {address}: {'; '.join(said)}"] if said else []
        if wrong:
            raise ClusterError(f"scheduler {self._address}: bits would differ: {' | '.join(wrong)}")

    def _facts_of_workers(self, client: Any) -> dict[str, Any]:
        found: dict[str, Any] = client.run(facts, on_error="return")
        return found

    def _round(self, client: Any, model: str, left: dict[int, Job]) -> Iterator[Answer]:
        """Send every job that is left, give what comes back, and take it off the list."""
        from distributed import KilledWorker

        parcels = {index: _stripped(job) for index, job in left.items()}
        by_digest = {
            a.digest: a for job in left.values() for a in (job.reference, *(s.arm for s in job.seats))
        }
        try:
            sent = client.scatter(by_digest, broadcast=True)
        except (OSError, TimeoutError):
            return  # a worker died while it was given them: the next round
        expected = facts()
        waiting = {
            client.submit(_task, model, parcel, [sent[d] for d in parcel.arms], expected, pure=False): index
            for index, parcel in parcels.items()
        }
        try:
            for future in self._done(client, list(waiting)):
                index = waiting.pop(future)
                try:
                    rows = future.result(timeout=NO_WORKER_SECONDS)
                except (CancelledError, TimeoutError):
                    continue  # its arms or its result went with the workers that held them: the next round
                except KilledWorker as error:
                    raise ClusterError(
                        f"prompt {left[index].prompt.name}: workers died over it until Dask gave up: {_words(error)}"
                    ) from error
                for label, row in rows:
                    yield index, label, row
                del left[index]
        finally:
            client.cancel(list(waiting))

    def _done(self, client: Any, futures: list[Any]) -> Iterator[Any]:
        """Futures as they end. Raises ClusterError when the scheduler is gone, or every worker for too long."""
        pending, alive = set(futures), time.monotonic()
        while pending:
            try:
                with client.as_current():
                    done = self._distributed.wait(pending, POLL_SECONDS, "FIRST_COMPLETED").done
            except TimeoutError:
                done = set()
            except CancelledError:
                done = {future for future in pending if future.status in ("cancelled", "lost")}
            if client.status != "running":
                raise ClusterError(f"scheduler {self._address}: expected a connection, got {client.status}")
            if done or client.scheduler_info()["workers"]:
                alive = time.monotonic()
            elif time.monotonic() - alive > NO_WORKER_SECONDS:
                raise ClusterError(
                    f"scheduler {self._address}: expected workers, got none for {NO_WORKER_SECONDS:.0f} s"
                )
            pending -= done
            yield from done
