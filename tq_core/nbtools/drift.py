"""Comparing the outputs of a run with the committed ones, cell by cell.

Text and HTML must be equal, pictures within the tolerance of pictures.py; whatever lint.py finds in the fresh outputs
(stderr, more than 150 kB, a path of the machine) counts as well. Left out, and named: cells whose output differs but
rests on full sizes or on the real model where this run has neither, and cells tagged ``sample`` that differ: text that
a model generated, where the last bit of a matrix product may turn one word. Of cells tagged ``machine`` nothing is committed.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tq_core.nbtools import pictures
from tq_core.nbtools.depends import FAST, REAL, dependent
from tq_core.nbtools.lint import problems
from tq_core.nbtools.normalise import MACHINE_TAG, normalise, strip_live, tags

SAMPLE_TAG = "sample"
SAMPLE = "generated text, a sample of another machine"
DIFF_LINES = 14
DIFF_WIDTH = 150
REASONS = {FAST: "reduced sizes", REAL: "the real model is not on this machine"}


@dataclass
class Drift:
    """What a comparison found: ``found`` in words; ``cells`` compared; ``left_out`` maps a reason to cell numbers."""

    found: list[str] = field(default_factory=list)
    cells: int = 0
    left_out: dict[str, list[int]] = field(default_factory=dict)

    def not_exercised(self) -> list[str]:
        """A line for each reason why cells were not compared."""
        return [f"cells {', '.join(map(str, n))}: {reason}" for reason, n in self.left_out.items() if n]


def _lines(text: str) -> list[str]:
    """Lines to compare; HTML is cut at its tags' ends, so that one changed number is one changed line."""
    return text.replace("><", ">\n<").replace("</td>", "</td>\n").splitlines()


def _text_difference(committed: str, fresh: str) -> str:
    lines = difflib.unified_diff(_lines(committed), _lines(fresh), "committed", "this run", "", n=0)
    shown = [line[:DIFF_WIDTH] for line in lines if not line.startswith(("---", "+++", "@@"))]
    more = [f"... and {len(shown) - DIFF_LINES} more lines"] if len(shown) > DIFF_LINES else []
    return (
        "\n".join(f"      {line}" for line in [*shown[:DIFF_LINES], *more])
        or "      only white space differs"
    )


def _data(output: Any) -> dict[str, str]:
    """Kind -> content of an output, streams and errors included."""
    if output.output_type == "stream":
        return {output.name: output.text}
    if output.output_type == "error":
        return {"error": f"{output.ename}: {output.evalue}"}
    alts = {f"alt of {kind}": about["alt"] for kind, about in output.metadata.items() if "alt" in about}
    return {**output.data, **alts}


def _output_differences(committed: Any, fresh: Any, compare_pictures: bool) -> Iterator[str]:
    old, new = _data(committed), _data(fresh)
    if old.keys() != new.keys():
        yield f"holds {', '.join(sorted(new))}, committed {', '.join(sorted(old))}"
        return
    for kind in sorted(old):
        if kind.startswith("image/"):
            if compare_pictures and (said := pictures.difference(old[kind], new[kind])):
                yield said
        elif old[kind] != new[kind]:
            yield f"{kind} differs\n{_text_difference(str(old[kind]), str(new[kind]))}"


def _cell_differences(committed: Any, fresh: Any, compare_pictures: bool) -> Iterator[str]:
    if len(committed.outputs) != len(fresh.outputs):
        yield f"{len(fresh.outputs)} outputs, committed {len(committed.outputs)}"
        return
    for number, (old, new) in enumerate(zip(committed.outputs, fresh.outputs, strict=True), 1):
        for said in _output_differences(old, new, compare_pictures):
            yield f"output {number}: {said}"


def compare(committed: Any, ran: Any, without: tuple[str, ...] = ()) -> Drift:
    """The committed notebook against what a run of it made; neither is changed.

    ``without`` names what the run did not have (FAST: full sizes, REAL: the real model).
    """
    fresh = strip_live(copy.deepcopy(ran))
    drift = Drift(problems(fresh))
    fresh, committed = normalise(fresh), normalise(copy.deepcopy(committed))
    unlike = pictures.unlike_the_committed()
    loose = {source: dependent(committed, source) for source in without}
    for number, (old, new) in enumerate(zip(committed.cells, fresh.cells, strict=True), 1):
        if old.cell_type != "code" or MACHINE_TAG in tags(old):
            continue
        differences = list(_cell_differences(old, new, not unlike))
        reasons = [source for source in without if number in loose[source]]
        why = [REASONS[r] for r in reasons] + [SAMPLE] * (SAMPLE_TAG in tags(old))
        if differences and why:
            drift.left_out.setdefault(" and ".join(why), []).append(number)
            continue
        drift.cells += 1
        if unlike and any(kind.startswith("image/") for output in old.outputs for kind in _data(output)):
            drift.left_out.setdefault(f"pictures, {unlike}", []).append(number)
        drift.found += [f"cell {number}, {said}" for said in differences]
    return drift
