"""One small run on the tiny model, shared by the tests that look at findings, tables and the report."""

import copy

import pytest

from tq_core.model.zoo import load_model
from validation import report
from validation.compare.store import Store
from validation.engine import readings
from validation.findings import collect
from validation.plan import make_plan
from validation.runner import make_record, prompts_for
from validation.tests.records import make_record as study_record
from validation.tests.records import make_samples


@pytest.fixture(scope="session")
def tiny():
    return load_model("tiny")


@pytest.fixture(scope="session", autouse=True)
def _own_readings(tmp_path_factory):
    """Readings kept by earlier runs are not taken by tests, and theirs are not left behind."""
    folder = tmp_path_factory.mktemp("readings")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readings, "default_store", lambda: Store(folder, folder / "arrays"))
        yield


@pytest.fixture(scope="session")
def _small_run(tiny, _own_readings):
    plan = make_plan("tiny", prompts=2, length=200, parity="off", options={"window": 64})
    return collect(plan, tiny, prompts_for(plan, tiny), None)


@pytest.fixture
def findings(_small_run):
    """Findings of two episodes; a test may change its copy."""
    return copy.deepcopy(_small_run)


@pytest.fixture(scope="session")
def _small_record(_small_run, tiny):
    return make_record(_small_run, tiny, "test", "tq validate", "2000-01-01T00:00:00Z", 1.0)


@pytest.fixture
def record(_small_record):
    """The record of these findings; a test may change its copy."""
    return copy.deepcopy(_small_record)


@pytest.fixture(scope="session")
def study_report(tmp_path_factory):
    """Folder of a report with a study; tests only read it, or copy it."""
    folder = tmp_path_factory.mktemp("study") / "report"
    report.write(study_record(), folder, make_samples())
    return folder
