"""The machine: what it is, how loaded, and which CPUs a measurement may use. Facts for the record, never a gate."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tq_core.errors import BackendError

CACHE_DEFAULT = 32 * 1024 * 1024


def caches() -> dict[str, int]:
    """Bytes of the data caches of CPU 0 by level ("L1", "L2", ...); empty where the system does not tell."""
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        with contextlib.suppress(OSError, ValueError):
            kind, size = (index / "type").read_text().strip(), (index / "size").read_text().strip()
            if kind != "Instruction":
                scale = {"K": 1024, "M": 1024**2}.get(size[-1], 1)
                found["L" + (index / "level").read_text().strip()] = int(size.rstrip("KM")) * scale
    return found


def last_level_cache() -> int:
    """Bytes of the largest cache, a guess where it cannot be read."""
    return max(caches().values(), default=CACHE_DEFAULT)


def cpus(threads: int) -> list[int]:
    """The CPUs for a measurement with this many threads: the last ones, where less else runs."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    return sorted(os.sched_getaffinity(0))[-threads:]


@contextlib.contextmanager
def pinned(threads: int) -> Iterator[list[int]]:
    """Keep this process on as many CPUs as threads; gives them back afterwards. A no-op where it cannot be done."""
    chosen = cpus(threads)
    if not chosen:
        yield []
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, chosen)
    except OSError:
        yield []
        return
    try:
        yield chosen
    finally:
        os.sched_setaffinity(0, before)


def load() -> list[float]:
    """Load averages over 1, 5 and 15 minutes; empty where there are none."""
    try:
        return [round(x, 2) for x in os.getloadavg()]
    except (OSError, AttributeError):
        return []


def facts() -> dict[str, Any]:
    """Machine, compiler and packages, for the record."""
    from tq_core.kernels.cling import cling_facts
    from validation.environment import git_state, machine, now, packages

    try:
        compiler: dict[str, Any] = cling_facts()
    except BackendError as error:
        compiler = {"error": str(error)}
    host = {**machine(), "caches": caches(), "cpus": len(cpus(os.cpu_count() or 1)), "load_before": load()}
    return {"host": host, "versions": packages(), "compiler": compiler, "git": git_state(), "started": now()}


def seconds_since(start: float) -> float:
    return time.monotonic() - start
