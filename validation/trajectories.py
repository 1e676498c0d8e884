"""Free replies side by side: where an arm's own words part from the reference's."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.engine.cell import SAMPLING
from validation.findings import Findings
from validation.prompt_metrics import first_difference

GREEDY = "greedy"
SURVIVAL_STEPS = 12


def trajectories(f: Findings) -> list[dict[str, Any]]:
    """Per workload, arm and sampler: at which token the reply first differs, and the share that is still equal.

    Drawn replies use the same seed, so the same random numbers, on both sides.
    """
    rows = []
    labels = [*f.arms, *(n for n, (control, _) in f.controls.items() if control == "no-op")]
    for workload in f.workloads.values():
        for label in labels:
            by_sampler: dict[str, list[tuple[int | None, int]]] = {}
            for arm, reference in workload.pairs(label):
                if arm.generated is not None and reference.generated is not None:
                    by_sampler.setdefault(GREEDY, []).append(_first(arm.generated, reference.generated))
                for seed in arm.sampled:
                    name = f"drawn, seed {seed}, temperature {SAMPLING['temperature']}, top-p {SAMPLING['top_p']}"
                    by_sampler.setdefault(name, []).append(_first(arm.sampled[seed], reference.sampled[seed]))
            rows += [_row(workload.name, label, name, found) for name, found in by_sampler.items()]
    return rows


def _first(arm: list[int], reference: list[int]) -> tuple[int | None, int]:
    return first_difference(arm, reference), max(len(arm), len(reference))


def _row(workload: str, arm: str, sampler: str, found: list[tuple[int | None, int]]) -> dict[str, Any]:
    """A reply that never differs counts as equal for as long as it is."""
    differs = [at for at, _ in found if at is not None]
    longest = max((n for _, n in found), default=0)
    steps = sorted({round(x) for x in np.linspace(1, max(longest, 1), SURVIVAL_STEPS)})
    equal = [[step, float(np.mean([at is None or at >= step for at, _ in found]))] for step in steps]
    return {
        "workload": workload,
        "arm": arm,
        "sampler": sampler,
        "prompts": len(found),
        "identical": len(found) - len(differs),
        "first_difference_median": float(np.median(differs)) if differs else None,
        "first_differences": [at for at, _ in found],
        "survival": equal,
    }
