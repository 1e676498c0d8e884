"""All exhibits in order, and the cases of the gallery that cannot be shown here, with the reason."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tq_core.errors import ValueRangeError, check
from validation.museum import (
    accounting,
    disagree,
    engines,
    hoards,
    lifecycle,
    maths,
    numbers,
    shapes,
    vacuous,
    wiring,
)
from validation.museum.exhibit import Exhibit

_ROOMS = (maths, disagree, shapes, wiring, numbers, lifecycle, accounting, vacuous, engines, hoards)


def _place(exhibit: Exhibit) -> tuple[str, int, str]:
    number = exhibit.id[1:].rstrip("bcd")
    return exhibit.id[0], int(number), exhibit.id


EXHIBITS: tuple[Exhibit, ...] = tuple(sorted((e for room in _ROOMS for e in room.EXHIBITS), key=_place))

# Case of the gallery -> why it is no exhibit. They are listed wherever the exhibits are.
NOT_EXERCISED: dict[str, str] = {
    "A11": "the scale S = 1 is a choice and no fault; notebook 02 sweeps it",
    "A12": "nearest-neighbour recall is no claim of this product, and none of its gates judges it",
    "C10": "needs a trained model in which a few layers carry retrieval; none is at hand",
    "C13": "needs a trained model with sensitive first and last layers; the tiny model has three layers",
    "G8": "warm and cold compile caches: times never decide here; the benchmark discards its first calls",
    "H5": "compiler flags of Cling need a process for each case; `tq doctor` and the certificate record them",
    "trajectory": "low divergence and a diverging generation: long generations of a trained model are needed",
    "refusals": "perplexity kept and refusals lost: a model with safety training is needed",
    "retokenised": "scores of retokenised text: every comparison here is between token ids of one text",
}
if hoards.unable():
    NOT_EXERCISED["F13"] = f"a process's peak resident size is needed, and {hoards.unable()}"


def get(name: str) -> Exhibit:
    """The exhibit with this id. Raises ValueRangeError, with the nearest id, for another."""
    known = {e.id.lower(): e for e in EXHIBITS}
    near = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"; did you mean {known[near[0]].id}?" if near else ""
    expected = f"one of {', '.join(e.id for e in EXHIBITS)}{hint}"
    check(name.lower() in known, "exhibit", expected, repr(name), ValueRangeError)
    return known[name.lower()]


def chosen(names: Sequence[str]) -> tuple[Exhibit, ...]:
    """The exhibits with these ids, or all."""
    return tuple(get(name) for name in names) if names else EXHIBITS
