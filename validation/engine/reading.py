"""A reading: what one arm made of one prompt, as arrays and as the plain row that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from validation.attention_scores import AttentionScores
from validation.logit_scores import TokenScores

Row = dict[str, Any]
_BOOLEAN = ("same_top", "right_reference", "right")


@dataclass(frozen=True)
class Held:
    """What a paged cache held when the prompt had been read.

    ledger: as ``Ledger.as_dict``. held: bytes found by walking its objects; unaccounted: those that the ledger does not
    name; parts: the ledger's entries summed.
    """

    ledger: dict[str, Any]
    held: int
    unaccounted: int
    parts: int


@dataclass(frozen=True)
class Reading:
    """scores: one row per scored prediction, against the reference, from position ``first`` on.

    alternatives: log-probability (nats) of each continuation; floor: the same without the context, of the reference alone.
    generated: ids of the free greedy reply, sampled: of replies drawn with a seed. forced: ids of the answer that was
    forced. seconds: of computing it, for information.
    """

    scores: TokenScores
    first: int
    alternatives: np.ndarray
    floor: np.ndarray
    forced: list[int]
    generated: list[int] | None
    sampled: Mapping[str, list[int]]
    held: Held | None
    attention: Mapping[int, AttentionScores] = field(default_factory=dict)
    seconds: float = 0.0

    def as_row(self) -> Row:
        """JSON-able form; every float keeps all its bits."""
        attention = {str(n): _columns(a) for n, a in self.attention.items()}
        return {
            "scores": _columns(self.scores),
            "first": self.first,
            "alternatives": self.alternatives.tolist(),
            "floor": self.floor.tolist(),
            "forced": list(self.forced),
            "generated": self.generated,
            "sampled": dict(self.sampled),
            "held": None if self.held is None else vars(self.held),
            "attention": attention,
            "seconds": self.seconds,
        }

    @classmethod
    def of_row(cls, row: Row) -> Reading:
        """Inverse of ``as_row``. Raises KeyError or TypeError for something else."""
        held = row["held"]
        return cls(
            scores=_restore(TokenScores, row["scores"]),
            first=int(row["first"]),
            alternatives=np.asarray(row["alternatives"], np.float64),
            floor=np.asarray(row["floor"], np.float64),
            forced=list(row["forced"]),
            generated=row["generated"],
            sampled=row["sampled"],
            held=None if held is None else Held(**held),
            attention={int(n): _restore(AttentionScores, a) for n, a in row["attention"].items()},
            seconds=float(row["seconds"]),
        )


def _columns(scores: TokenScores | AttentionScores) -> dict[str, Any]:
    every = {f.name: getattr(scores, f.name) for f in fields(scores)}
    return {n: a.tolist() if isinstance(a, np.ndarray) else int(a) for n, a in every.items()}


def _restore(kind: Any, columns: Mapping[str, Any]) -> Any:
    def array(name: str, values: Any) -> Any:
        if isinstance(values, int):
            return values
        return np.asarray(values, bool if name in _BOOLEAN or name.startswith("same_top") else np.float64)

    return kind(**{n: array(n, v) for n, v in columns.items()})
