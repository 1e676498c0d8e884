"""The process that measures resident sizes: it compiles once, then forks one fresh process for each cache.

Run with ``python -m validation.trials.child``; reads a pickled Job, writes JSON. A fork begins with its own high-water
mark, so what was compiled and imported before does not hide a cache.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path

from tq_core.codecs.arms import Arm, get_arm
from tq_core.kernels.backend import Backend, NumpyBackend
from tq_core.kernels.native import NativeBackend
from tq_core.shapes import ModelShape
from validation.trials.session import Make, feed, plain, random_rows

KINDS = ("baseline", "arm", "fp16")


@dataclass(frozen=True)
class Job:
    """What to measure: ``repeats`` processes of each kind, ``tokens`` in each cache."""

    shape: ModelShape
    arm: Arm
    backend: str
    tokens: int
    repeats: int
    make: Make


def resident() -> dict[str, int]:
    """VmRSS and VmHWM of this process in bytes. Raises OSError or KeyError where the system does not tell."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split(":")[1].split() for line in lines if line.startswith("Vm")}
    return {name: 1024 * int(found[name][0]) for name in ("VmRSS", "VmHWM")}


def lean_backend(name: str) -> Backend:
    """A backend without looking for all others: numpy, or the native target of this name."""
    return NativeBackend(name.removeprefix("native-")) if name.startswith("native-") else NumpyBackend()


def measure(job: Job, backend: Backend, kind: str) -> int:
    """Bytes that the high-water mark rose above what was resident before the cache was made."""
    rows = random_rows(job.shape)
    warm(job, backend)
    gc.collect()
    before = resident()["VmRSS"]
    if kind != "baseline":
        make, arm = (job.make, job.arm) if kind == "arm" else (plain, get_arm("fp16"))
        cache = make(job.shape, arm, backend, 0)
        list(feed(cache, job.shape, rows, job.tokens))
    return resident()["VmHWM"] - before


def warm(job: Job, backend: Backend) -> None:
    """Compile and load what either cache needs, and touch the pages of the libraries."""
    small = ModelShape(1, job.shape.n_query_heads, job.shape.n_kv_heads, job.shape.head_dim)
    rows = random_rows(small)
    for arm in (job.arm, get_arm("fp16")):
        list(feed(plain(small, arm, backend), small, rows, 2 * len(rows.keys)))


def forked(job: Job, backend: Backend, kind: str) -> tuple[int, int]:
    """(pid, descriptor to read the result from) of a process that measures once."""
    end, start = os.pipe()
    pid = os.fork()
    if pid:
        os.close(start)
        return pid, end
    code = 1
    try:
        os.write(start, str(measure(job, backend, kind)).encode())
        code = 0
    finally:
        os._exit(code)


def collected(pid: int, end: int, kind: str) -> int:
    """What a forked process found. Raises RuntimeError when it ended without a result."""
    with os.fdopen(end) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if not text:
        raise RuntimeError(
            f"the process for the {kind} cache ended with status {status} and without a result"
        )
    return int(text)


def run(job: Job) -> dict[str, list[int]]:
    """Every kind ``repeats`` times, as many processes at once as there are cores."""
    backend = lean_backend(job.backend)
    warm(job, backend)
    kinds = [kind for _ in range(job.repeats) for kind in KINDS]
    found: dict[str, list[int]] = {kind: [] for kind in KINDS}
    at_once = max(1, len(os.sched_getaffinity(0)))
    for first in range(0, len(kinds), at_once):
        batch = [(kind, *forked(job, backend, kind)) for kind in kinds[first : first + at_once]]
        for kind, pid, end in batch:
            found[kind].append(collected(pid, end, kind))
    return found


if __name__ == "__main__":
    print(json.dumps(run(pickle.load(sys.stdin.buffer))))
