"""What an exhibit is: a seeded input, the right and the faulty way to treat it, and the gate that tells them apart.

A gate of the museum is a check that the product has anyway: ``Stop.where`` names it, and exhibits hand it what they
made. The faults are in public reports; each is restated as a fact in our own words, and nothing of the code is theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

KINDS = {
    "A": "quantizer maths",
    "B": "shapes, tails, packing",
    "C": "attention wiring",
    "D": "numbers",
    "E": "lifecycle and identity",
    "F": "accounting",
    "G": "nothing was compressed",
    "H": "engines",
    "M": "metrics that disagree",
}


@dataclass(frozen=True)
class Readings:
    """What the usual metrics say of a result; None where the exhibit has no such number.

    mse: squared error of the stored vectors over their squared norm. cosine: mean over stored vectors. ppl_ratio, kl
    (nats), top1: next token against the uncompressed cache. rank: Kendall tau of the attention logits over the 32
    largest. overlap: share of the 8 most attended tokens that are kept.
    """

    mse: float | None = None
    cosine: float | None = None
    ppl_ratio: float | None = None
    kl: float | None = None
    top1: float | None = None
    rank: float | None = None
    overlap: float | None = None

    def as_dict(self) -> dict[str, float | None]:
        """Name to number."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


BETTER_WHEN_HIGHER = {"cosine": True, "top1": True, "rank": True, "overlap": True, "mse": False, "ppl_ratio": False, "kl": False}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a gate said of one result."""

    stopped: bool
    said: str


@dataclass(frozen=True)
class Stop:
    """A gate of the product: ``where`` is the dotted name of the function or class that decides."""

    name: str
    where: str
    run: Callable[[Any], Outcome]


@dataclass(frozen=True)
class Exhibit:
    """``given`` makes the seeded input; ``right`` and ``faulty`` make of it what ``stop`` judges and ``read`` measures.

    id: kind and number. seen: where the fault was reported. fault, value: one sentence each, what is done wrong and
    what is right. note: what to learn from it, where the two sentences do not say it.
    """

    id: str
    title: str
    seen: str
    fault: str
    value: str
    given: Callable[[], Any]
    right: Callable[[Any], Any]
    faulty: Callable[[Any], Any]
    stop: Stop
    read: Callable[[Any, Any], Readings] | None = None
    note: str = ""

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return KINDS[self.id[0]]


def always(result: Any) -> Callable[[Any], Any]:
    """A result that does not depend on the input, such as a codec."""
    return lambda given: result


@dataclass(frozen=True)
class Shown:
    """An exhibit that was run: what the gate and the metrics say of both results."""

    exhibit: Exhibit
    right: Readings
    faulty: Readings
    passed: Outcome
    caught: Outcome

    @property
    def works(self) -> bool:
        """Whether the gate lets the right result pass and stops the faulty one."""
        return self.caught.stopped and not self.passed.stopped

    def blind(self) -> list[str]:
        """Metrics that call the faulty result as good as the right one, or better."""
        pairs = zip(self.right.as_dict().items(), self.faulty.as_dict().values())
        return [
            name
            for (name, right), faulty in pairs
            if right is not None
            and faulty is not None
            and (faulty >= right if BETTER_WHEN_HIGHER[name] else faulty <= right)
        ]

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        e = self.exhibit
        told = {n: getattr(e, n) for n in ("id", "kind", "title", "seen", "fault", "value", "note")}
        return {
            **told,
            "gate": e.stop.name,
            "where": e.stop.where,
            "stopped": self.works,
            "right": {**self.right.as_dict(), "gate": self.passed.said},
            "faulty": {**self.faulty.as_dict(), "gate": self.caught.said},
        }


def show(exhibit: Exhibit) -> Shown:
    """Run an exhibit: both results from one input, each judged and measured."""
    given = exhibit.given()
    results = exhibit.right(given), exhibit.faulty(given)
    passed, caught = (exhibit.stop.run(result) for result in results)
    right, faulty = (exhibit.read(given, r) if exhibit.read else Readings() for r in results)
    return Shown(exhibit, right, faulty, passed, caught)
