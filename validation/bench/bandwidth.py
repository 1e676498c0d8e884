"""How fast this machine reads memory right now: the roof that every payload is compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from validation.bench.loops import FLOAT_TARGETS, load_bench, native_targets
from validation.bench.machine import pinned
from validation.bench.plan import Plan
from validation.bench.timing import Samples, Timed, measure

STREAMS = (1, 4)
STEP_BYTES = 64 * 1024


@dataclass(frozen=True)
class Bandwidth:
    """GB/s (10^9 bytes per second) of one way to read: median, least and greatest."""

    threads: int
    target: str
    streams: int
    median: float
    low: float
    high: float


def read_all(plan: Plan) -> list[Bandwidth]:
    """Every way to read, for every number of threads, interleaved; one buffer far larger than the caches."""
    targets = [t for t in FLOAT_TARGETS if t in native_targets()] or ["scalar"]
    nbytes = plan.bandwidth_bytes // STEP_BYTES * STEP_BYTES
    raw = np.ones(nbytes + 64, np.uint8)
    data = raw[-raw.ctypes.data % 64 :][:nbytes]
    found = []
    for threads in plan.threads:
        ways = [(target, streams) for target in targets for streams in STREAMS]
        with pinned(threads):
            samples = measure([_reader(*way, threads, data) for way in ways], plan.repeats, 0.0, 60.0)
        found += [_summary(threads, *way, nbytes, s) for way, s in zip(ways, samples)]
    return found


def _reader(target: str, streams: int, threads: int, data: np.ndarray) -> Timed:
    read, out = getattr(load_bench(), target).read_sum, np.zeros(threads, np.uint64)
    return Timed(
        f"read-{streams}@{target}", lambda calls: read(calls, threads, streams, data, data.size, out)
    )


def _summary(threads: int, target: str, streams: int, nbytes: int, samples: Samples) -> Bandwidth:
    return Bandwidth(
        threads, target, streams, nbytes / samples.median, nbytes / max(samples.ns), nbytes / min(samples.ns)
    )


def best(found: list[Bandwidth], threads: int) -> float:
    """Median of the fastest way with this many threads: the roof is what the machine can do, not what one loop does."""
    return max(b.median for b in found if b.threads == threads)
