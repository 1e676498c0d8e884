"""A real JupyterLab for the tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tq_core.browser.lab import copy_checkout, running_lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab in fast mode, on a copy: what a notebook writes is not the tree's."""
    home = tmp_path_factory.mktemp("lab")
    with running_lab(copy_checkout(home / "files"), home) as address:
        yield address
