"""The form of a study: run, stop, export, compare, and what is wrong said in the page."""

import json
from dataclasses import replace

import pytest

from tq_core.show.choice import Choice
from validation import form as module
from validation.form import StudyForm
from validation.study import WorkloadUse


@pytest.fixture
def form(tmp_path, monkeypatch):
    real = module.find_study
    small = replace(real("tiny-episodes"), workloads=(WorkloadUse("episodes", 2, 200),), parity="off")
    monkeypatch.setattr(module, "find_study", lambda name: small if name == "tiny-episodes" else real(name))
    return StudyForm(out=tmp_path / "report")


def run(form):
    form.start()
    form.wait(300)


def test_run_export_and_compare_with_what_was_exported(form, tmp_path):
    assert form.buttons["Export"].disabled and form.export() == {} and "first" in form.status.value
    run(form)
    assert form.record.status in form.status.value and "gates" in form.verdict.value
    assert not form.buttons["Run"].disabled and form.buttons["Stop"].disabled
    assert form.progress.value == form.progress.max > 0
    paths = form.export()
    stored = json.loads(paths["json"].read_text())
    assert stored["status"] == form.record.status and paths["html"].exists()
    form.earlier.value = str(form.out)
    assert "identical" in form.compare() and "identical" in form.status.value


def test_a_stopped_run_says_so_and_writes_nothing(form):
    form._stop.set()
    form.run()
    assert form.record is None and "Stopped" in form.status.value and not form.out.exists()
    assert not form.buttons["Run"].disabled


def test_bad_choices_are_told_in_the_page(form):
    form.earlier.value = "/nowhere"
    run(form)
    assert form.compare() == "" and 'role="alert"' in form.status.value
    form.study.value = "smollm2-text"
    form.arm.value, form.model.value = "planted-bad", "tiny"
    run(form)
    assert 'role="alert"' in form.status.value, "the tiny model cannot read that study's texts"


def test_another_study_brings_its_arms(form):
    form.study.value = "smollm2-text"
    assert form.arm.values == tuple(module.find_study("smollm2-text").arms)


def test_every_control_has_a_name(form):
    for control in (
        form.model,
        form.study,
        form.arm,
        form.amount,
        form.progress,
        form.earlier,
        *form.buttons.values(),
    ):
        assert control.label if isinstance(control, Choice) else control.description
