"""Where the system's Chromium is, and the switches with which it starts without reaching for the network."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tq_core.errors import TqError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


class BrowserMissing(TqError):
    """No Chromium is installed here."""


def find_chromium() -> str:
    """Path of Chromium: on PATH, else among the browsers that Playwright keeps. Raises BrowserMissing."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    kept = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright"
    for pattern in ("chromium-*/chrome-linux*/chrome", "chromium_headless_shell-*/*/*headless*shell"):
        for path in sorted(Path(kept).glob(pattern), reverse=True):
            if os.access(path, os.X_OK):
                return str(path)
    raise BrowserMissing(
        f"chromium: expected one of {', '.join(NAMES)} on PATH or a Chromium of Playwright, got none; install "
        "the package chromium (apt-get install chromium)"
    )


def switches() -> list[str]:
    """For a browser that talks to nobody but the pages it is given."""
    quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync"]
    # Chromium starts for no superuser otherwise.
    return quiet + (["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [])
