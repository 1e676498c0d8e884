"""Chromium on a page, with a record of what went wrong in it and of what it asked from elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tq_core.browser.chromium import find_chromium, switches

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOCAL = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:", "file:")


@dataclass
class Record:
    """Uncaught exceptions, lines that the console shows as errors, and requests that left the machine."""

    exceptions: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Everything recorded, one line each."""
        lines = [f"exception: {e}" for e in self.exceptions] + [f"console: {e}" for e in self.console]
        return lines + [f"request: {e}" for e in self.requests]


@contextlib.contextmanager
def chromium(*more: str) -> Iterator[Browser]:
    """The system's Chromium under Playwright; ``more`` switches are added. Raises BrowserMissing."""
    from playwright.sync_api import sync_playwright

    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*switches(), *more])
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: Browser, width: int = 1280, height: int = 900) -> tuple[Page, Record]:
    """A page of a fresh profile, and its record, which grows while the page lives."""
    page = browser.new_context(viewport={"width": width, "height": height}).new_page()
    record = Record()
    page.on("pageerror", lambda error: record.exceptions.append(str(error)))
    page.on("console", lambda line: record.console.append(line.text) if line.type == "error" else None)
    page.on("request", lambda asked: _note(record, asked.url))
    page.on("websocket", lambda opened: _note(record, opened.url))
    return page, record


def _note(record: Record, address: str) -> None:
    if not address.startswith(LOCAL):
        record.requests.append(address)
