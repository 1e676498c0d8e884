"""The family of the methods: who made what, what it builds on, what came before it, and the arms that stand for it here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from tq_core.errors import ValueRangeError, check
from validation.pages.markdown import link, page, table

FILE = Path(__file__).with_name("family.json")
PICTURE = "family.svg"
LANES = ("rotation and table", "signs and angles", "channels", "even steps")
Kind = Literal["builds on", "came before"]
KINDS: tuple[Kind, ...] = ("builds on", "came before")


@dataclass(frozen=True)
class Tie:
    """``of`` is the older method. "came before": the same idea, published earlier, whether it was known or not."""

    of: str
    kind: Kind
    how: str


@dataclass(frozen=True)
class Method:
    """A method as its authors published it; ``year`` is None for software without a paper of its own, and
    ``row`` is its height in the picture's lane."""

    name: str
    year: int | None
    lane: str
    row: float
    source: str
    who: str
    idea: str
    ties: tuple[Tie, ...]
    arms: tuple[str, ...]
    file: str


@lru_cache(maxsize=1)
def methods() -> tuple[Method, ...]:
    """The methods in the order of the file. Raises ValueRangeError for a tie to a method that is not older or not there."""
    found: dict[str, Method] = {}
    for item in json.loads(FILE.read_text(encoding="utf-8")):
        ties = tuple(Tie(**tie) for tie in item.pop("from"))
        arms = tuple(item.pop("arms"))
        made = Method(**item, ties=ties, arms=arms)
        check(made.lane in LANES, made.name, f"a lane of {', '.join(LANES)}", made.lane, ValueRangeError)
        for tie in ties:
            check(tie.of in found, made.name, "ties to methods above it", tie.of, ValueRangeError)
            check(tie.kind in KINDS, made.name, f"a tie of {', '.join(KINDS)}", tie.kind, ValueRangeError)
            older = (found[tie.of].year or 0) <= (made.year or 9999) if tie.kind == "came before" else True
            check(older, made.name, "nothing that came before and is younger", tie.of, ValueRangeError)
        found[made.name] = made
    return tuple(found.values())


def _ties(method: Method) -> str:
    return "; ".join(f"{tie.kind} {tie.of}: {tie.how}" if tie.kind == "builds on" else f"after {tie.of}: {tie.how}" for tie in method.ties)  # fmt: skip


def _row(method: Method) -> list[str]:
    name = f"{method.name} ({method.year or 'software'})"
    arms = ", ".join(f"`{arm}`" for arm in method.arms) or "none of its own"
    return [
        name,
        f"{method.who}; {method.source}",
        method.idea,
        _ties(method),
        f"{arms}: {link(method.file)}",
    ]


def alt() -> str:
    """What the picture shows, in words."""
    ties = [(m.name, tie) for m in methods() for tie in m.ties]
    built = "; ".join(f"{name} builds on {tie.of}" for name, tie in ties if tie.kind == "builds on")
    before = "; ".join(f"{tie.of} came before {name}" for name, tie in ties if tie.kind == "came before")
    return f"Family tree of {len(methods())} methods in {len(LANES)} rows by year. Solid arrows: {built}. Dashed arrows: {before}."


def text() -> str:
    """The page: the picture and the same as a table, lane by lane."""
    parts = [
        "## Picture",
        f"![{alt()}]({PICTURE})",
        "A solid arrow leads from what was built on; a dashed one from a method that had the idea before. Rotation with a scalar "
        "codebook is older than TurboQuant: DRIVE, EDEN, HIGGS and RaBitQ had it, and the docstring of vLLM's presets credits the first three.",
    ]
    for lane in LANES:
        rows = [_row(method) for method in methods() if method.lane == lane]
        columns = ["method", "who and where", "idea", "builds on, comes after", "arms here"]
        parts += [f"## {lane.capitalize()}", table(columns, rows)]
    return page(
        "Family of the methods",
        "Who made what, what it builds on, and the arm that stands for it here.",
        *parts,
    )
