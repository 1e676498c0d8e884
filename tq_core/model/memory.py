"""How much memory this machine has, asked before a large model is loaded."""

from __future__ import annotations

import os
from pathlib import Path

from tq_core.errors import ModelUnavailable

_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def machine_bytes() -> int | None:
    """Bytes of memory that this process may have at most: the machine's or its group's; None when not told."""
    found = []
    try:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):  # not every system tells
        pass
    try:
        found.append(int(_GROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no such group, or "max"
        pass
    return min((size for size in found if size > 0), default=None)


def check_memory(what: str, n_bytes: int) -> None:
    """Raise ModelUnavailable when ``n_bytes`` are more than the machine's memory, saying both sizes."""
    there = machine_bytes()
    if there is not None and n_bytes > there:
        raise ModelUnavailable(
            f"memory: expected {what} to take at most the {there / 1e9:.1f} GB of this machine, got {n_bytes / 1e9:.1f} GB"
        )
