"""A study: what will be run and what will decide, fixed and hashed before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tq_core.errors import ValueRangeError, check
from validation.compare.store import key_of

ANY_MODEL = "any"
PARITY_SCOPES = ("full", "quick", "off")
LEAST_PROMPTS = 20  # fewer give no interval over prompts


@dataclass(frozen=True)
class WorkloadUse:
    """So many prompts of a workload, each of about ``tokens`` tokens."""

    name: str
    prompts: int
    tokens: int


@dataclass(frozen=True)
class Budget:
    """The most that may be lost: the one-sided upper bound of the mean loss of ``metric`` must not exceed ``limit``.

    metric: a name of ``prompt_metrics.PROMPT_METRICS``; ``limit`` is in the unit of its loss.
    """

    workload: str
    metric: str
    limit: float
    why: str

    def __post_init__(self) -> None:
        ok = 0 < self.limit < float("inf")
        check(ok, f"budget of {self.workload}: {self.metric}", "more than 0", self.limit, ValueRangeError)


@dataclass(frozen=True)
class Comparison:
    """A claim of difference between the arm under test and those beside it; all of a study form one family."""

    workload: str
    metric: str


@dataclass(frozen=True)
class Controls:
    """Arms that show what the run can tell, on the first ``prompts`` prompts of the first workload."""

    prompts: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """arms: those that may be under test, the default first. The first workload is the one that ``kl`` and ``top1`` judge.

    seeds: "resampling" one number; "rotation" and "sampling" lists. file: where it was read from, not part of the digest.
    """

    name: str
    version: int
    question: str
    model: str
    arms: tuple[str, ...]
    beside: tuple[str, ...]
    workloads: tuple[WorkloadUse, ...]
    budgets: tuple[Budget, ...]
    controls: Controls
    comparisons: tuple[Comparison, ...] = ()
    seeds: Mapping[str, Any] = field(
        default_factory=lambda: {"resampling": 0, "rotation": [], "sampling": []}
    )
    confidence: float = 0.95
    least_prompts: int = LEAST_PROMPTS
    parity: str = "quick"
    file: str = ""

    @property
    def primary(self) -> WorkloadUse:
        """The workload of the regression budget."""
        return self.workloads[0]

    def budget(self, metric: str) -> Budget:
        """The primary workload's budget of a metric. Raises ValueRangeError where the study has none."""
        found = [b for b in self.budgets if (b.workload, b.metric) == (self.primary.name, metric)]
        there = ", ".join(f"{b.metric} on {b.workload}" for b in self.budgets) or "none"
        wanted = f"one of {metric} on {self.primary.name}, its first workload"
        check(bool(found), f"budgets of study {self.name}", wanted, there, ValueRangeError)
        return found[0]

    def describe(self) -> dict[str, Any]:
        """JSON-able form of everything that is registered."""
        plain = asdict(self)
        del plain["file"]
        return {**plain, "seeds": dict(self.seeds)}

    @property
    def sha256(self) -> str:
        """Digest of what is registered: the same words and numbers, whatever the layout of the file."""
        return key_of(study=self.describe())
