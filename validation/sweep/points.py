"""The points of a sweep: every arm at every value of the axes that it has, once; what it refuses is listed with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tq_core.codecs.arms import arm_options
from tq_core.errors import TqError
from validation.compare.plan import parse_arm
from validation.controls import PLANTED_BAD, arm_for
from validation.sweep.file import SAME, Sweep

BITS = ("key_bits", "value_bits")
_SHORT = {"window": "window", "sinks": "sinks", "seed": "seed"}


@dataclass(frozen=True)
class Point:
    """An arm as the file names it, and all options that it is given: its own ones and the axes'."""

    arm: str
    name: str
    options: tuple[tuple[str, Any], ...]

    @property
    def series(self) -> str:
        """What stays the same while the bits change: the arm and its other options."""
        rest = [f"{_SHORT.get(k, k)} {v}" for k, v in self.options if k not in BITS]
        return ", ".join([self.name, *rest])

    @property
    def label(self) -> str:
        """The series with the bits after the name, such as "structured-turbo 3/2, window 32"."""
        given = dict(self.options)
        bits = [f"{given[b]:g}" for b in BITS if b in given]
        first, *rest = self.series.split(", ")
        return ", ".join([" ".join([first, "/".join(dict.fromkeys(bits))]) if bits else first, *rest])

    def describe(self) -> dict[str, Any]:
        """JSON-able form."""
        return {"arm": self.arm, "label": self.label, "series": self.series, "options": dict(self.options)}


@dataclass(frozen=True)
class Refused:
    """A point that could not be read, on ``model`` and ``workload`` where it is about these, and why."""

    point: Point
    reason: str
    model: str = ""
    workload: str = ""
    available: bool = True  # False where it could be read elsewhere: a model's file is missing here

    def describe(self) -> dict[str, Any]:
        """JSON-able form."""
        about = {"model": self.model, "workload": self.workload, "reason": self.reason}
        return {**self.point.describe(), **about, "available": self.available}


@dataclass
class Expansion:
    """points that can be had, those that cannot, and axes that an arm does not have: arm -> {option: why}."""

    points: list[Point] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    not_applied: dict[str, dict[str, str]] = field(default_factory=dict)


def _known(text: str) -> tuple[str, dict[str, Any], Mapping[str, Any]]:
    """Name of an arm, the options that the text sets, and those that it knows."""
    name = text.split(":")[0].strip()
    if name == PLANTED_BAD:
        return name, {}, {}
    entry = parse_arm(text)
    return entry.name, dict(entry.options), arm_options(entry.name)


def _grid(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Every combination, the last axis changing fastest; "same" becomes the keys' bits."""
    for values in product(*axes.values()):
        found = dict(zip(axes, values, strict=True))
        if found.get("value_bits") == SAME:
            found["value_bits"] = found["key_bits"]
        yield found


def expand(sweep: Sweep) -> Expansion:
    """All points of a sweep in the file's order, whatever the model.

    Arms that must be fitted are tried on a stand-in here: good for their options alone.
    """
    out = Expansion()
    for text in sweep.arms:
        name, own, known = _known(text)
        applied = {k: v for k, v in sweep.axes.items() if k in known and k not in own}
        if applied.get("value_bits") == (SAME,) and "key_bits" not in applied:
            applied["value_bits"] = sweep.axes["key_bits"]
        absent = {k: "set by the arm's own text" if k in own else f"{name} has no such option" for k in sweep.axes if k not in applied}  # fmt: skip
        if absent:
            out.not_applied[text] = absent
        for options in _grid(applied):
            point = Point(text, name, tuple({**own, **options}.items()))
            try:
                arm_for(name, **dict(point.options))
            except TqError as error:
                out.refused.append(Refused(point, " ".join(str(error).split())))
                continue
            out.points.append(point)
    return out
