"""The kept reference: the same readings with and without it, and nothing damaged or foreign is ever taken."""

import errno
import os
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tq_core.codecs.arms import get_arm
from tq_core.errors import ValueRangeError
from validation.engine import cell
from validation.engine.cell import Job, Seat, compute
from validation.engine.reference_store import References, reference_key
from validation.workloads.catalogue import prompts_of


@pytest.fixture(scope="module")
def job(tiny):
    """Alternatives, floor, replies, and layers whose attention is compared: all that a reading can have."""
    prompt = replace(prompts_of(tiny, "episodes", 1, 80)[0], new_tokens=2, stop_ids=(0,))
    seats = (Seat("a", get_arm("kivi-control", window=16)),)
    return Job(prompt, get_arm("fp16"), seats, layers=(tiny.shape.n_layers - 1,), sampling=(1,))


@pytest.fixture(scope="module")
def plain(tiny, job):
    """Rows computed without any store."""
    return rows(job, tiny, References(most_bytes=0))


@pytest.fixture(scope="module")
def kept(tiny, job, plain, tmp_path_factory):
    """A folder with the reference of the job, and the rows of the run that kept it."""
    folder = tmp_path_factory.mktemp("kept")
    return folder, rows(job, tiny, References(folder))


def rows(job, model, references):
    found = {label: reading.as_row() for label, reading in compute(job, model, references=references)}
    for row in found.values():
        del row["seconds"]
    return found


def key_of_job(job, model):
    return reference_key(model, job, "numpy")


@pytest.mark.slow
def test_readings_are_the_same_to_the_bit_with_and_without_it(tiny, job, plain, kept, monkeypatch):
    folder, first = kept
    assert (
        first == plain and plain["a"]["attention"] and plain["a"]["sampled"] and plain["reference"]["floor"]
    )
    monkeypatch.setattr(cell, "_reference", lambda *a: pytest.fail("the reference was read again"))
    assert rows(job, tiny, References(folder)) == plain


def test_fresh_reads_it_again(tiny, job, kept, monkeypatch):
    class Asked(Exception):
        pass

    def asked(*_):
        raise Asked

    monkeypatch.setattr(cell, "_reference", asked)
    with pytest.raises(Asked):
        rows(replace(job, fresh=True), tiny, References(kept[0]))


def test_what_it_depends_on_is_in_its_key(tiny, job):
    changed = [
        job,
        replace(job, layers=()),
        replace(job, sampling=()),
        replace(job, reference=get_arm("fp16", sinks=4)),
        replace(job, prompt=replace(job.prompt, new_tokens=5)),
    ]
    keys = {key_of_job(j, tiny) for j in changed} | {reference_key(tiny, job, "other")}
    assert len(keys) == len(changed) + 1
    assert key_of_job(replace(job, seats=(), fresh=True), tiny) == key_of_job(job, tiny)


def test_damaged_and_foreign_files_count_as_absent(tiny, job, kept, tmp_path):
    key = key_of_job(job, tiny)
    good = (kept[0] / f"{key}.npz").read_bytes()
    references, rng = References(tmp_path), random.Random(1)
    whole = References(kept[0]).load(key)
    path = tmp_path / f"{key}.npz"
    absent = 0
    for trial in range(150):
        data = bytearray(good)
        if trial % 3 == 0:
            data = data[: rng.randrange(len(data))]
        else:
            for _ in range(1 + trial % 4):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        found = references.load(key)
        absent += found is None
        # A bit that no reader looks at, such as a time in the archive's directory, may have flipped.
        assert found is None or (
            np.array_equal(found.read.logits, whole.read.logits) and found.read.held == whole.read.held
        )
    assert absent > 120
    other = "0" * 64
    shutil.copy(kept[0] / f"{key}.npz", tmp_path / f"{other}.npz")
    assert references.load(other) is None, "a whole file under another's name"
    np.savez(path, x=np.zeros(3))
    assert references.load(key) is None
    path.unlink()
    path.mkdir()
    assert references.load(key) is None


def test_the_oldest_go_when_there_is_no_room(tiny, job, kept, tmp_path):
    read = References(kept[0]).load(key_of_job(job, tiny))
    keys = [f"{n:064d}" for n in range(6)]
    everything = References(tmp_path)
    for n, key in enumerate(keys):
        everything.keep(key, read)
        os.utime(tmp_path / f"{key}.npz", (1000 + n, 1000 + n))
    size = (tmp_path / f"{keys[0]}.npz").stat().st_size
    assert everything.load(keys[1]) is not None, "one that is used becomes the newest"
    stale = tmp_path / ".x.npz.1.part"
    stale.write_bytes(b"x")
    os.utime(stale, (1000, 1000))
    fresh_part = tmp_path / ".y.npz.1.part"
    fresh_part.write_bytes(b"x")
    # The newest comes in: with room for four and a half, the three of seven that were not used for longest go.
    References(tmp_path, int(4.5 * size)).keep("f" * 64, read)
    left = {p.stem for p in tmp_path.glob("*.npz")}
    assert left == {keys[1], *keys[4:], "f" * 64}
    assert not stale.exists() and fresh_part.exists()


def test_one_that_would_push_out_all_others_is_not_kept(tiny, job, kept, tmp_path):
    read = References(kept[0]).load(key_of_job(job, tiny))
    References(tmp_path, read.read.logits.nbytes).keep("a" * 64, read)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_does_not_end_the_run(tiny, job, kept, tmp_path, monkeypatch):
    read = References(kept[0]).load(key_of_job(job, tiny))
    references = References(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(references._store, "keep", full)
    references.keep("a" * 64, read)
    assert references.load("a" * 64) is None


def test_the_settings_come_from_outside(monkeypatch, tmp_path):
    monkeypatch.setenv("TQ_REFERENCE_DIR", str(tmp_path))
    monkeypatch.setenv("TQ_REFERENCE_BYTES", "123")
    assert (References().folder, References().most_bytes) == (tmp_path, 123)
    monkeypatch.setenv("TQ_REFERENCE_BYTES", "4G")
    with pytest.raises(ValueRangeError, match="TQ_REFERENCE_BYTES"):
        References()
