"""Chromium for a module's tests; without it they are left out, visibly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tq_core.browser.chromium import BrowserMissing
from tq_core.browser.page import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        with chromium() as started:
            yield started
    except BrowserMissing as error:
        pytest.skip(f"not exercised: {error}")
