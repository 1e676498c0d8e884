"""Where things are: the checkout's folders and the user's cache directory."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CPP = ROOT / "cpp"
BUILD = ROOT / "build"


def cache_dir() -> Path:
    """$TQ_CACHE_DIR, else $XDG_CACHE_HOME/tq-workbook, else ~/.cache/tq-workbook; made when missing."""
    chosen = os.environ.get("TQ_CACHE_DIR")
    if chosen is None:
        chosen = os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tq-workbook"
        )
    path = Path(chosen)
    path.mkdir(parents=True, exist_ok=True)
    return path
