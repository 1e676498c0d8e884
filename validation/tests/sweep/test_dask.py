"""A real scheduler and two real worker processes on this machine: the same bits, also when one of them dies at work."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tq_core.errors import TqError
from validation.compare.store import Store
from validation.engine import dask_executor
from validation.engine.dask_executor import ClusterError, DaskExecutor
from validation.engine.execute import executor_for
from validation.engine.worker_facts import differences, facts
from validation.sweep.result import make_result
from validation.sweep.run import jobs_of, run_sweep

# distributed leaves sockets to the garbage collector when a peer dies; that is of no account to what is tested.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")]  # fmt: skip


def _dask(arguments, folder, name):
    settings = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "TQ_BACKEND": "numpy"}
    settings |= {"TQ_REFERENCE_DIR": str(folder / name)}
    log = open(folder / f"{name}.log", "w")
    command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
    with log:
        return subprocess.Popen(command, env=settings, stdout=log, stderr=subprocess.STDOUT)


class Cluster:
    """``address`` of a scheduler, and its worker processes."""

    def __init__(self, folder):
        self.folder, self.workers = folder, []
        self._file = folder / "scheduler.json"
        self.scheduler = _dask(
            ["dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(self._file)],
            folder, "scheduler",
        )  # fmt: skip
        for name in ("one", "two"):
            self.add(name)
        until = time.monotonic() + 60
        while not self._file.exists() or not self._file.read_text():
            assert time.monotonic() < until, (folder / "scheduler.log").read_text()
            time.sleep(0.05)
        self.address = json.loads(self._file.read_text())["address"]

    def add(self, name):
        self.workers.append(
            _dask(
                ["dask_worker", "--scheduler-file", str(self._file), "--nthreads", "1", "--no-nanny", "--no-dashboard",
                 "--host", "127.0.0.1", "--name", name, "--local-directory", str(self.folder / name)],
                self.folder, name,
            )
        )  # fmt: skip

    def wait_for(self, count):
        from distributed import Client

        with Client(self.address, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=60)

    def stop(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, _own_folders):
    made = Cluster(tmp_path_factory.mktemp("dask"))
    try:
        made.wait_for(2)
        yield made
    finally:
        made.stop()


class _Killing:
    """Once a reading has come back, kills a worker that is at work on another."""

    def __init__(self, inner, cluster):
        self.inner, self.cluster, self.given, self.victim = inner, cluster, 0, None

    def run(self, model, jobs):
        for answer in self.inner.run(model, jobs):
            self.given += 1
            if self.victim is None:
                self.victim = self._busy()
                os.kill(self.victim, signal.SIGKILL)
            yield answer

    def _busy(self):
        from distributed import Client

        with Client(self.cluster.address, timeout=30, set_as_default=False) as client:
            busy = [address for address, tasks in client.processing().items() if tasks]
            return next(iter(client.run(os.getpid, workers=busy[:1]).values()))


def test_other_bits_are_refused_before_anything_is_read(cluster, mini, swept, monkeypatch):
    wrong = {**facts(), "code": "0" * 64}
    monkeypatch.setattr(dask_executor, "facts", lambda: wrong)
    # The workers import the real function: sent by name, it is theirs that they run.
    monkeypatch.setattr(dask_executor.DaskExecutor, "_facts_of_workers", lambda self, client: client.run(facts, on_error="return"))  # fmt: skip
    jobs, _ = jobs_of(mini, swept.models[0])
    with pytest.raises(
        ClusterError, match=r"worker tcp://127.0.0.1:\d+: code: expected 0000.*\| worker tcp://"
    ):
        list(DaskExecutor(cluster.address).run("tiny", jobs))
    # A worker that joins later is not asked: its first task refuses.
    monkeypatch.setattr(dask_executor.DaskExecutor, "_check_workers", lambda self, client: None)
    with pytest.raises(ClusterError, match=r"worker tcp://127.0.0.1:\d+ would give other bits: code"):
        list(DaskExecutor(cluster.address).run("tiny", jobs))


def test_an_error_of_a_job_arrives_as_itself(cluster, mini, swept):
    jobs, _ = jobs_of(mini, swept.models[0])
    with pytest.raises(TqError, match="model: expected one of"):
        list(DaskExecutor(cluster.address).run("no-such-model", jobs))


def test_one_of_two_workers_killed_midway_the_same_digest(cluster, mini, swept, tmp_path):
    killing = _Killing(executor_for(1, cluster.address), cluster)
    found = run_sweep(mini, store=Store(tmp_path), executor=killing)
    (dead,) = [w for w in cluster.workers if w.pid == killing.victim]
    assert dead.wait(timeout=30) == -signal.SIGKILL
    assert found.computed == swept.computed == killing.given
    assert (
        make_result(found, {"command": ""})["result_digest"]
        == make_result(swept, {"command": ""})["result_digest"]
    )
    again = run_sweep(mini, store=Store(tmp_path))
    assert (again.computed, again.reused) == (0, swept.computed)


def test_a_prompt_that_kills_workers_ends_the_run(cluster, mini, swept):
    from distributed import Client

    with Client(cluster.address, timeout=30, set_as_default=False) as client:
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    jobs, _ = jobs_of(mini, swept.models[0])
    killing = _Killing(executor_for(1, cluster.address), cluster)
    with pytest.raises(ClusterError, match="prompt episode-2000.: workers died over it"):
        list(killing.run("tiny", jobs))


def test_without_any_worker_it_gives_up(cluster, mini, swept, monkeypatch):
    monkeypatch.setattr(dask_executor, "NO_WORKER_SECONDS", 1.0)
    monkeypatch.setattr(dask_executor, "CONNECT_SECONDS", 5.0)
    jobs, _ = jobs_of(mini, swept.models[0])
    for worker in cluster.workers:
        worker.kill()
        worker.wait()
    with pytest.raises(ClusterError, match="expected .*worker.*, got none|workers died"):
        list(DaskExecutor(cluster.address).run("tiny", jobs))


def test_the_scheduler_dies_at_work(cluster, mini, swept, monkeypatch):
    cluster.add("three")
    cluster.wait_for(1)
    jobs, _ = jobs_of(mini, swept.models[0])
    given = DaskExecutor(cluster.address).run("tiny", jobs)
    next(given)
    cluster.scheduler.kill()
    with pytest.raises(ClusterError, match="expected a connection, got"):
        list(given)


def test_no_scheduler_and_no_package(monkeypatch, mini, swept):
    monkeypatch.setattr(dask_executor, "CONNECT_SECONDS", 0.5)
    jobs, _ = jobs_of(mini, swept.models[0])
    with pytest.raises(ClusterError, match="expected a Dask scheduler at tcp://127.0.0.1:1"):
        list(DaskExecutor("tcp://127.0.0.1:1").run("tiny", jobs))
    with pytest.raises(ClusterError, match="expected a Dask scheduler at nonsense"):
        list(DaskExecutor("nonsense://x").run("tiny", jobs))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match=r"tq-workbook\[sweep\]"):
        executor_for(1, "tcp://127.0.0.1:1")


def test_differences_are_told_by_name():
    assert differences(facts(), facts()) == []
    assert differences({"a": "1", "b": "2"}, {"a": "1", "b": "3"}) == ["b: expected 2, got 3"]
