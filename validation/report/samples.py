"""samples.jsonl: one line per prompt and arm, and the few of them that the page shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from validation.report.files import ReportError
from validation.report.reading import parse_json
from validation.schema import problem

Sample = dict[str, Any]


def as_lines(samples: Iterable[Sample]) -> str:
    """One line of JSON each. Raises ReportError for a sample that breaks its schema or stands twice."""
    lines, seen = [], set()
    for i, sample in enumerate(samples):
        try:
            line = json.dumps(sample, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ReportError(f"samples[{i}]: expected plain finite data, got {error}") from error
        wrong = problem(json.loads(line), "sample")
        if wrong is not None:
            raise ReportError(f"samples[{i}]: expected what the schema allows, got {wrong}")
        key = sample["workload"], sample["prompt"], sample["arm"]
        if key in seen:
            raise ReportError(f"samples[{i}]: expected one per workload, prompt and arm, got {key} twice")
        seen.add(key)
        lines.append(line + "\n")
    return "".join(lines)


def read_lines(data: bytes, name: str) -> list[Sample]:
    """The samples of a file's content. Raises ReportError, which names the line."""
    found = []
    for i, line in enumerate(data.splitlines(), 1):
        sample = parse_json(line, f"{name} line {i}")
        wrong = problem(sample, "sample")
        if wrong is not None:
            raise ReportError(f"{name} line {i}: expected what the schema allows, got {wrong}")
        found.append(sample)
    return found


def chosen(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Per workload the prompts with the largest, the middle and the smallest mean KL (of any arm), with all their arms.

    The rule looks at no reply, so that no flattering one is picked.
    """
    workloads: dict[str, dict[str, list[Sample]]] = {}
    for sample in samples:
        workloads.setdefault(sample["workload"], {}).setdefault(sample["prompt"], []).append(sample)
    found = []
    for workload, prompts in workloads.items():
        ranked = sorted(prompts, key=lambda name: -max(s["kl_mean"] or 0.0 for s in prompts[name]))
        places = {"largest": 0, "middle": len(ranked) // 2, "smallest": len(ranked) - 1}
        taken: dict[int, str] = {}
        for which, place in places.items():
            taken.setdefault(place, which)
        for place, which in sorted(taken.items()):
            arms = prompts[ranked[place]]
            found.append({"workload": workload, "prompt": ranked[place], "which": which, "arms": arms})
    return found
