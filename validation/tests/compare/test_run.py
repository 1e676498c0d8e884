"""Runs go on where they stopped, take only rows that still hold, and say what could not be measured."""

import numpy as np
import pytest

from tq_core.codecs.arms import get_arm
from validation.compare import run as module
from validation.compare.plan import Entry, make_plan
from validation.compare.run import behaviour, run
from validation.compare.store import Store
from validation.simulate import CodedRows


def test_all_rows_are_there(comparison, plan) -> None:
    assert set(comparison.rows) == set(plan.entries) and not comparison.failures
    assert {len(rows) for rows in comparison.rows.values()} == {plan.documents}


def test_a_second_run_measures_nothing(comparison, plan, tiny, store) -> None:
    again = run(plan, tiny, store=store)
    assert (again.measured, again.reused) == (0, len(plan.entries) * plan.documents)
    assert again.rows == comparison.rows


def test_more_documents_measure_only_these(comparison, tiny, store) -> None:
    arms = ("structured-turbo", "kivi-control")
    more = make_plan("tiny", arms, (2.0, 3.0), documents=3, tokens=128, calibration=1)
    found = run(more, tiny, store=store)
    assert found.measured == len(more.entries) and found.reused == 2 * len(more.entries)


def test_an_interrupt_keeps_what_is_done(tiny, tmp_path, monkeypatch) -> None:
    plan = make_plan("tiny", ["eden"], (2.0,), documents=2, tokens=128, calibration=1)
    own, real, calls = Store(tmp_path / "r", tmp_path / "a"), module.measure, []

    def stops(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "measure", stops)
    with pytest.raises(KeyboardInterrupt):
        run(plan, tiny, store=own)
    monkeypatch.setattr(module, "measure", real)
    rest = run(plan, tiny, store=own)
    assert (rest.reused, rest.measured) == (2, 2)


def test_another_mask_is_another_row(comparison, plan, tiny, store) -> None:
    other = make_plan("tiny", ["kivi-control"], (2.0,), documents=1, tokens=128, calibration=1, window=24)
    assert run(other, tiny, store=store).reused == 0


def test_the_behaviour_of_a_codec_is_part_of_a_row(tiny, monkeypatch) -> None:
    arm = get_arm("kivi-control", window=16, sinks=4)
    before = behaviour(tiny.shape, arm, 32)
    assert (
        before
        == behaviour(tiny.shape, arm, 32)
        != behaviour(tiny.shape, get_arm("kivi-control", window=16), 32)
    )
    real = CodedRows.extend

    def nudged(self, x):
        real(self, x)
        self.rows = np.nextafter(self.rows, np.float32(np.inf))

    monkeypatch.setattr(CodedRows, "extend", nudged)
    assert behaviour(tiny.shape, arm, 32) != before


def test_what_the_shape_does_not_allow_is_listed(tiny, store) -> None:
    plan = make_plan(
        "tiny", ["structured-turbo", "kivi-control:group=128"], (3.0,), documents=1, tokens=180, calibration=1
    )
    found = run(plan, tiny, store=store)
    listed = {e.name for e in found.failures}
    assert listed <= {"kivi-control"} and Entry("structured-turbo") in found.rows
    assert all(reason for reason in found.failures.values())


@pytest.mark.slow
def test_fits_are_kept_and_give_the_same_arm(tiny, store, monkeypatch) -> None:
    from validation.compare import fitting

    plan = make_plan("tiny", ["kvquant"], (), documents=1, tokens=128, calibration=2)
    first = run(plan, tiny, store=store)

    def no_vectors(self):
        raise AssertionError("fitted again")

    for name in ("texts_apart", "one_sequence"):
        monkeypatch.setattr(fitting.Captured, name, property(no_vectors))
    second = run(plan, tiny, store=store)
    assert [a.digest for a in first.arms.values()] == [a.digest for a in second.arms.values()]
    assert second.measured == 0
