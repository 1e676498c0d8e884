"""Stopping the cache's code at a chosen line, as Ctrl-C can."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import tq_core.cache

CACHE = str(Path(tq_core.cache.__file__).parent)


def lines_until_done(action: Callable[[], Any], stop_at: int | None, also: str = "") -> int:
    """Run ``action`` and raise KeyboardInterrupt before the ``stop_at``-th line of tq_core/cache, or of file ``also``.

    Returns the number of lines that ran. Lines of what the caller does before and after do not count.
    """
    count = 0

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        if event == "line":
            if count == stop_at:
                raise KeyboardInterrupt(f"{frame.f_code.co_name}, line {frame.f_lineno}")
            count += 1
        return local

    def tracer(frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        return local if name.startswith(CACHE) or (also and name == also) else None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        action()
    finally:
        sys.settrace(before)
    return count
