"""A ladder of implementations of one task: each is verified before it is let in, then all are timed in turn.

A rung is right when it has the numpy twin's bits, or, where the order of its additions is its own, when its error
against float64 is within a limit that is stated. Times are nanoseconds per token and KV head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from tq_core.errors import KernelError, check
from tq_core.show import figures
from tq_core.show.speed import interleaved
from tq_core.show.work import Runner

FLOAT_LIMIT = 1e-5  # float32 sums of thousands of terms in any order
EXACT_LIMIT = 1e-4  # 16-bit queries, 15-bit weights
FAST_LIMIT = 3e-2  # 8-bit queries, 7-bit weights


def relative_error(got: npt.NDArray[np.float32], want: npt.NDArray[np.floating]) -> float:
    """Largest difference over largest magnitude; infinite where something is not finite."""
    if not np.isfinite(got).all():
        return float("inf")
    return float(np.abs(got - want).max() / np.abs(want).max())


def differing(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> int:
    """How many numbers do not have the same bits."""
    return int((a.view(np.uint32) != b.view(np.uint32)).sum())


@dataclass(frozen=True)
class Rung:
    """A verified implementation. ``moved``: bytes that the memory sees per token and KV head, at least."""

    name: str
    runner: Runner
    moved: float
    verdict: str
    error: float

    def __str__(self) -> str:
        return f"{self.name}: {self.verdict}"


class Ladder:
    """``truth`` is the task's result in float64, ``units`` tokens times KV heads, ``bandwidth`` GB/s of reading alone."""

    def __init__(self, truth: npt.NDArray[np.float64], units: int, bandwidth: float) -> None:
        self.truth, self.units, self.bandwidth = truth, units, bandwidth
        self.rungs: list[Rung] = []
        self.ns: dict[str, float] = {}

    def add(
        self,
        name: str,
        runner: Runner,
        moved: float,
        limit: float = FLOAT_LIMIT,
        twin: npt.NDArray[np.float32] | None = None,
    ) -> Rung:
        """Run once and compare. Raises KernelError when a bit differs from ``twin`` or the error exceeds ``limit``."""
        runner.output.fill(np.nan)
        runner.run()
        error = relative_error(runner.output, self.truth)
        if twin is not None:
            wrong = differing(runner.output, twin)
            check(wrong == 0, name, "the bits of the numpy twin", f"{wrong} numbers that differ", KernelError)
        check(
            error <= limit,
            name,
            f"an error of at most {limit:g} against float64",
            f"{error:.2g}",
            KernelError,
        )
        verdict = f"within {limit:g} of float64" if twin is None else "same bits as numpy"
        rung = Rung(name, runner, moved, verdict, error)
        self.rungs.append(rung)
        return rung

    def measure(self, rounds: int = 9, seconds: float = 0.002) -> None:
        """Time all rungs in turn, ``seconds`` to a sample; fills ``ns``."""
        taken = interleaved({rung.name: rung.runner.run for rung in self.rungs}, rounds, seconds)
        self.ns = {name: 1e9 * value / self.units for name, value in taken.items()}

    COLUMNS = (
        "rung",
        "verified",
        "error against float64",
        "ns",
        "bytes moved",
        "share of read bandwidth",
        "speed-up",
    )

    def rows(self) -> list[list[object]]:
        """Rows for ``COLUMNS``; ns and bytes are per token and KV head, the speed-up is over the first rung."""
        first = self.ns[self.rungs[0].name]
        return [
            [r.name, r.verdict, f"{r.error:.1e}", self.ns[r.name], r.moved, f"{self.share(r.name):.0%}", f"{first / self.ns[r.name]:.3g} x"]
            for r in self.rungs
        ]  # fmt: skip

    def figure(self, roof_bytes: float) -> Figure:
        """Bars of ``ns``; the dashed line is what reading ``roof_bytes`` per token and KV head takes at full bandwidth."""
        names = list(self.ns)
        label = f"reading {roof_bytes:g} bytes at {self.bandwidth:.1f} GB/s"
        return figures.rungs(
            names, [self.ns[n] for n in names], "ns per token and KV head", roof_bytes / self.bandwidth, label
        )

    def share(self, name: str) -> float:
        """Bytes moved per second of a rung over the bandwidth of reading alone."""
        rung = next(r for r in self.rungs if r.name == name)
        return rung.moved / self.ns[name] / self.bandwidth
