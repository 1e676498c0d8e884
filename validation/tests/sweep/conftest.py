"""A sweep that takes a second: three short episodes, the numpy backend, everything kept in a folder of the test's own."""

import pytest

from validation.compare.store import Store
from validation.sweep.file import parse_sweep
from validation.sweep.run import run_sweep

MINI = {
    "name": "mini",
    "version": 1,
    "question": "Does the machinery work?",
    "models": ["tiny"],
    "arms": ["structured-turbo", "kivi-control", "structured-turbo:key_bits=2:value_bits=2", "fp16"],
    "key_bits": [2, 3.5],
    "value_bits": "same",
    "windows": [16],
    "workloads": [{"name": "episodes", "prompts": 3, "tokens": 80}],
    "metrics": ["kl_mean", "flips"],
    "cache": "simulated",
}


@pytest.fixture(scope="session")
def mini():
    return parse_sweep(MINI)


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory):
    """Nothing of these tests is kept where a user's runs are; numpy needs no compiler to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TQ_BACKEND", "numpy")
        patch.setenv("TQ_REFERENCE_DIR", str(tmp_path_factory.mktemp("reference")))
        yield


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="session")
def swept(mini, store):
    """The undisturbed run."""
    return run_sweep(mini, store=store)
