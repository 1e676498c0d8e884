"""The timing protocol: bursts of calls, one per contestant and round, the order turned around every round.

A contestant is warmed up, the number of calls per burst is fixed from what one call takes, and then every round takes
one sample of everybody. What drifts (clock speed, other processes) meets all of them alike, and samples of one round
are paired: ratios are medians of ratios within rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Clock = Callable[[], int]
CALLS_MAX = 100_000


class Contestant(Protocol):
    """Something that does the same work again and again."""

    name: str

    def sample(self, calls: int) -> float:
        """Nanoseconds per call of a burst, after one call that is not timed."""


@dataclass
class Timed:
    """A contestant in this process: ``burst(calls)`` does the work."""

    name: str
    burst: Callable[[int], Any]
    clock: Clock = time.perf_counter_ns

    def sample(self, calls: int) -> float:
        self.burst(1)
        start = self.clock()
        self.burst(calls)
        return (self.clock() - start) / calls


@dataclass
class Samples:
    """Nanoseconds per call, one entry per round, and the calls in each burst."""

    name: str
    calls: int
    ns: list[float] = field(default_factory=list)
    reason: str = ""  # why there are no samples

    @property
    def median(self) -> float:
        return statistics.median(self.ns)

    @property
    def mad(self) -> float:
        """Median absolute deviation from the median."""
        middle = self.median
        return statistics.median(abs(x - middle) for x in self.ns)


def order(n: int, round_index: int) -> list[int]:
    """Who goes when: 0..n-1 in even rounds, n-1..0 in odd ones, each round beginning one further on.

    Turning around makes ABBA; the shift gives everybody everybody else as a neighbour in time.
    """
    shifted = [(i + round_index // 2) % n for i in range(n)]
    return shifted[::-1] if round_index % 2 else shifted


def calls_per_burst(one_call_ns: float, sample_seconds: float) -> int:
    """Calls that take about ``sample_seconds``."""
    return max(1, min(CALLS_MAX, round(sample_seconds * 1e9 / max(one_call_ns, 1.0))))


def calibrate(contestant: Contestant, sample_seconds: float, call_limit: float) -> Samples:
    """Warm up and fix the burst; one that is too slow, or fails, gets a reason and no samples."""
    try:
        first = contestant.sample(1)
        if first > call_limit * 1e9:
            return Samples(
                contestant.name,
                0,
                reason=f"one call takes {first / 1e9:.2f} s, the limit is {call_limit:g} s",
            )
        # The first burst may still compile or fault pages in; the second says how long a call takes.
        second = contestant.sample(calls_per_burst(first, sample_seconds / 4))
    except Exception as error:
        return Samples(contestant.name, 0, reason=f"{type(error).__name__}: {error}")
    return Samples(contestant.name, calls_per_burst(min(first, second), sample_seconds))


def measure(
    contestants: Sequence[Contestant], repeats: int, sample_seconds: float, call_limit: float
) -> list[Samples]:
    """Samples of every contestant, in the order given. A contestant that fails drops out with its reason."""
    found = [calibrate(c, sample_seconds, call_limit) for c in contestants]
    for round_index in range(repeats):
        for i in order(len(contestants), round_index):
            if found[i].reason:
                continue
            try:
                found[i].ns.append(contestants[i].sample(found[i].calls))
            except Exception as error:
                found[i] = Samples(found[i].name, 0, reason=f"{type(error).__name__}: {error}")
    return found


def paired_ratio(slower: Samples, faster: Samples) -> tuple[float, float, float]:
    """How many times faster: median, least and greatest ratio within rounds."""
    ratios = [a / b for a, b in zip(slower.ns, faster.ns)]
    return statistics.median(ratios), min(ratios), max(ratios)
