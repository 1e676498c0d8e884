"""One piece of advice with its reasons: every reason is a figure, its limit and where the limit comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from validation.diagnose.thresholds import Threshold

Summary = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Reason:
    """A figure of the diagnosis beside the limit that it crossed or kept."""

    figure: str
    measured: float | None
    limit: Threshold
    crossed: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        limit = self.limit
        told = {"limit": limit.name, "limit_value": limit.value, "unit": limit.unit, "origin": limit.origin}
        return {"figure": self.figure, "measured": self.measured, "crossed": self.crossed, **told}

    def __str__(self) -> str:
        if self.measured is None:
            return f"{self.figure} is not known (limit {self.limit.value:g}, {self.limit.origin})"
        limit = self.limit
        return f"{self.figure} {self.measured:.3g}, limit {limit.value:g} {limit.unit} ({limit.origin}: {limit.name})"


@dataclass(frozen=True)
class Finding:
    """topic, the value that is advised, and why. special: not what clean Gaussian vectors would get."""

    topic: str
    value: Any
    text: str
    reasons: tuple[Reason, ...] = ()
    special: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        reasons = [r.as_dict() for r in self.reasons]
        return {"topic": self.topic, "value": self.value, "special": self.special, "text": self.text, "because": reasons}  # fmt: skip


def of(summary: Summary, figure: str, what: str = "median") -> float | None:
    """A figure of the summary, None when no head has it."""
    entry = summary.get(figure)
    return None if entry is None else float(entry[what])


def above(figure: str, measured: float | None, limit: Threshold, scale: float = 1.0) -> Reason:
    """A reason that is crossed when measured >= limit * scale; never for an unknown figure."""
    return Reason(figure, measured, limit, measured is not None and measured >= limit.value * scale)


def below(figure: str, measured: float | None, limit: Threshold) -> Reason:
    """A reason that is crossed when measured < limit."""
    return Reason(figure, measured, limit, measured is not None and measured < limit.value)


def share_of_heads(rows: Sequence[dict[str, Any]], crossed: Sequence[bool | None]) -> float | None:
    """Share of the heads with the finding among those where it is known."""
    known = [c for c in crossed if c is not None]
    return None if not known or not rows else sum(known) / len(known)
