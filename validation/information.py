"""Can a workload tell anything on this model? At the floor there is nothing to lose, at the ceiling nothing shows.

A workload that cannot tell is "no information": whatever an arm does there, it is never a pass.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from validation import stats
from validation.engine.cell import REFERENCE
from validation.findings import WorkloadFindings
from validation.prompt_metrics import PromptMetric, right

Level = Literal["informative", "floor", "ceiling", "not told"]
ONE_SIDED = 0.90  # a two-sided 90 % interval's end is a one-sided 95 % bound
AT_CEILING: Level = "ceiling"


@dataclass(frozen=True)
class Information:
    """status, and what it rests on. accuracy: of the reference with the context, guessed: without it; None without alternatives."""

    status: Level
    evidence: str
    accuracy: float | None = None
    guessed: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return asdict(self)

    def tells(self, metric: PromptMetric) -> bool:
        """Whether a metric can decide here. The log-odds keep falling where every answer is right, so a ceiling leaves them."""
        if metric.needs != "alternatives":
            return True
        return self.status == "informative" or (self.status == AT_CEILING and not metric.saturates)


def information_of(workload: WorkloadFindings) -> Information:
    """From the reference's own answers, with and without the context."""
    readings = [r for r in workload.readings.get(REFERENCE, []) if len(r.alternatives) >= 2]
    if not readings:
        return Information(
            "not told",
            "no alternatives to choose between; the negative control tells whether it is sensitive",
        )
    n = len(readings)
    told = np.array([right(r.alternatives) for r in readings])
    with_floor = [r for r in readings if len(r.floor) >= 2]
    said = f"the uncompressed cache chooses right on {int(told.sum())} of {n} prompts"
    guessed = None
    if with_floor:
        guess = np.array([right(r.floor) for r in with_floor])
        gain = np.array([right(r.alternatives) for r in with_floor]) - guess
        guessed = float(guess.mean())
        said += f", and on {int(guess.sum())} of {len(guess)} without the context"
        lost, won = int((gain < 0).sum()), int((gain > 0).sum())
        # One-sided exact test of "the context helps": a fair coin decides each prompt on which the two differ.
        helped = lost + won > 0 and stats.share_at_least(won, lost + won) > 0.5
        if not helped:
            return Information(
                "floor",
                f"no information: {said}; that the context helps is not shown",
                float(told.mean()),
                guessed,
            )
    if told.all():
        evidence = f"{said}: its share of right answers cannot show a small loss; the log-odds still can"
        return Information(AT_CEILING, evidence, 1.0, guessed)
    return Information("informative", said, float(told.mean()), guessed)
