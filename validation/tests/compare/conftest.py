"""One small comparison on the tiny model, shared by the tests of rows, files and claims."""

import pytest

from validation.compare.plan import make_plan
from validation.compare.result import make_result
from validation.compare.run import run
from validation.compare.store import Store

ARMS = ("fp16", "structured-turbo", "kivi-control", "turboquant-prod")


@pytest.fixture(scope="session")
def plan():
    return make_plan("tiny", ARMS, (2.0, 3.0), documents=2, tokens=128, calibration=1)


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    return Store(folder / "rows", folder / "arrays")


@pytest.fixture(scope="session")
def comparison(plan, tiny, store):
    return run(plan, tiny, store=store)


@pytest.fixture(scope="session")
def result(comparison, tiny):
    facts = {"command": "tq compare", "measured": comparison.measured, "reused": comparison.reused}
    return make_result(comparison, tiny, "tq compare", facts, with_claims=False)
