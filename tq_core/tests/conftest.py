"""A real JupyterLab for the tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tq_core.browser.lab import copy_checkout, running_lab

# Whole files go to one worker: minutes that begin last would leave the other one idle.
LONGEST = (
    "browser/test_form.py",
    "browser/test_notebooks.py",
    "notebooks/test_execute.py",
    "tests/test_form.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, the rest in its order."""
    items.sort(key=lambda item: not Path(item.path).as_posix().endswith(LONGEST))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab in fast mode, on a copy: what a notebook writes is not the tree's."""
    home = tmp_path_factory.mktemp("lab")
    with running_lab(copy_checkout(home / "files"), home) as address:
        yield address
