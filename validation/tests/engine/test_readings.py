"""Readings are kept as they come: a stopped run goes on, another machine's workers give the same bits, a full disk is said."""

import json

import pytest

from tq_core.codecs.arms import get_arm
from tq_core.errors import ValueRangeError
from validation.compare.store import Store
from validation.engine import execute
from validation.engine.cell import Job, Seat
from validation.engine.execute import Processes, Serial, WorkerDiffers, executor_for
from validation.engine.keys import code_digest, reading_key
from validation.engine.readings import read_all
from validation.workloads.episodes import WORKLOAD

TURBO = get_arm("structured-turbo", window=32)


@pytest.fixture(scope="module")
def jobs():
    from tq_core.model.zoo import load_model

    made = WORKLOAD.prompts(load_model("tiny"), 3, 128)
    return [Job(p, get_arm("fp16"), (Seat("turbo", TURBO), Seat("no-op", get_arm("fp16")))) for p in made]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "rows", tmp_path / "arrays")


def rows(found):
    """Everything but the time it took."""
    return [
        {label: {k: v for k, v in r.as_row().items() if k != "seconds"} for label, r in sorted(job.items())}
        for job in found.by_job
    ]


class Stopping:
    """Stands for a run that is killed after so many readings."""

    def __init__(self, after):
        self.after = after

    def run(self, model, jobs):
        for count, answer in enumerate(Serial().run(model, jobs)):
            if count == self.after:
                raise KeyboardInterrupt
            yield answer


@pytest.mark.parametrize("after", [0, 1, 4, 8])
def test_a_stopped_run_goes_on_and_ends_the_same(tiny, jobs, store, after):
    whole = read_all(tiny, "tiny", jobs, store=Store(store.rows / "other", store.arrays))
    with pytest.raises(KeyboardInterrupt):
        read_all(tiny, "tiny", jobs, store=store, executor=Stopping(after))
    again = read_all(tiny, "tiny", jobs, store=store)
    assert (again.reused, again.computed) == (after, 9 - after) and rows(again) == rows(whole)


def test_kept_readings_are_taken_unless_fresh_ones_are_asked_for(tiny, jobs, store):
    seen = []
    first = read_all(tiny, "tiny", jobs, store=store, progress=lambda *a: seen.append(a[1:]))
    assert first.computed == 9 and seen == [(i + 1, 9) for i in range(9)]
    second = read_all(tiny, "tiny", jobs, store=store)
    assert (second.computed, second.reused) == (0, 9) and rows(second) == rows(first)
    fresh = read_all(tiny, "tiny", jobs, store=store, fresh=True)
    assert fresh.computed == 9 and rows(fresh) == rows(first)


def test_a_damaged_reading_is_computed_again(tiny, jobs, store):
    whole = read_all(tiny, "tiny", jobs[:1], store=store)
    for path in store.rows.glob("*.json"):
        kept = json.loads(path.read_text())
        kept["row"]["scores"]["kl"][0] = 9.0
        path.write_text(json.dumps(kept))
    again = read_all(tiny, "tiny", jobs[:1], store=store)
    assert again.computed == 3 and rows(again) == rows(whole)


def test_the_time_left_is_of_what_is_computed_and_kept_readings_are_told(tiny, jobs, store):
    """Nine readings, three of them kept: a third of the work is two of six, whatever was there before."""
    read_all(tiny, "tiny", jobs[:1], store=store)
    seen = []
    read_all(tiny, "tiny", jobs, store=store, progress=lambda *a: seen.append(a))
    assert [a[1:] for a in seen] == [(i + 1, 6) for i in range(6)]
    assert all(a[0].endswith(", 3 more were kept") for a in seen)


@pytest.mark.slow
def test_a_process_that_rounds_otherwise_is_refused(tiny, jobs, store, monkeypatch):
    monkeypatch.setattr(execute, "arithmetic", lambda: "0" * 64)  # here alone: a child imports its own
    with pytest.raises(WorkerDiffers, match="workers: arithmetic: expected 0000000000000000, got"):
        read_all(tiny, "tiny", jobs, store=store, executor=Processes(1), fresh=True)


@pytest.mark.slow
def test_other_processes_give_the_same_bits(tiny, jobs, store):
    here = read_all(tiny, "tiny", jobs, store=store)
    there = read_all(tiny, "tiny", jobs, store=store, executor=Processes(2), fresh=True)
    assert there.computed == 9 and rows(there) == rows(here)


def test_a_full_disk_does_not_end_the_run_and_is_said(tiny, jobs, store, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "keep_row", full)
    found = read_all(tiny, "tiny", jobs[:1], store=store)
    assert found.computed == 3 and "No space left" in found.unkept


def test_the_key_of_a_reading_names_all_that_it_depends_on(tiny, jobs):
    from dataclasses import replace

    job, seat = jobs[0], jobs[0].seats[0]
    others = [
        (replace(job, prompt=jobs[1].prompt), seat), (replace(job, layers=(0,)), seat), (replace(job, sampling=(1,)), seat),
        (replace(job, reference=get_arm("fp16", sinks=4)), seat), (job, replace(seat, kind="simulated")), (job, None),
        (job, replace(seat, arm=get_arm("structured-turbo", window=33))), (job, replace(seat, flush=4)),
        (job, replace(seat, replies=False)),
    ]  # fmt: skip
    keys = [reading_key(tiny, j, s, "numpy") for j, s in [(job, seat), *others]]
    keys.append(reading_key(tiny, job, seat, "native-avx2"))
    assert len(set(keys)) == len(keys)
    assert reading_key(tiny, job, replace(seat, label="other"), "numpy") == keys[0], "a label is no content"


def test_a_change_of_the_code_makes_kept_readings_stale(monkeypatch, tmp_path):
    from validation.engine import keys

    before = code_digest()
    monkeypatch.setattr(keys, "FILES", keys.FILES[1:])
    code_digest.cache_clear()
    try:
        assert code_digest() != before
    finally:
        monkeypatch.undo()
        monkeypatch.undo()
        code_digest.cache_clear()
    assert code_digest() == before


def test_how_many_processes_may_be_asked_for():
    assert isinstance(executor_for(1), Serial) and isinstance(executor_for(2), Processes)
    with pytest.raises(ValueRangeError, match="workers"):
        executor_for(0)
