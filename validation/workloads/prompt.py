"""A prompt: what every arm reads, which predictions are scored, and which continuations are weighed against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tq_core.cache.canonical import array_digest
from tq_core.errors import ValueRangeError, check
from validation.compare.store import key_of
from validation.scenarios import Document

NOTHING = np.zeros(0, np.int32)


@dataclass(frozen=True)
class Prompt(Document):
    """One unit: ``tokens`` are read first, then ``answer`` is forced token by token; int32 (n,) each.

    workload: name of the workload that made it.
    scored_from: first position of tokens + answer whose prediction is scored; len(tokens) scores the answer alone.
    answer: the forced continuation. Empty with ``new_tokens``: the reference's own greedy reply is forced on all arms.
    alternatives: continuations of ``tokens`` compared by their log-probability, the right one first; none or at least two.
    floor: the question without its context, read by the reference alone, to tell what can be guessed; may be empty.
    new_tokens: tokens of a free reply to ``tokens``, 0 for none; ``stop_ids`` end it.
    accept: what a right reply contains, all of them, in any case; distractors: what a telling wrong reply contains.
    facts: what tables group by, such as depth, length, distance.

    Raises ValueRangeError for a prompt that has nothing to score or a single alternative.
    """

    workload: str = "text"
    scored_from: int = 1
    answer: np.ndarray = field(default_factory=lambda: NOTHING)
    alternatives: tuple[np.ndarray, ...] = ()
    floor: np.ndarray = field(default_factory=lambda: NOTHING)
    new_tokens: int = 0
    stop_ids: tuple[int, ...] = ()
    accept: tuple[str, ...] = ()
    distractors: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"prompt {self.name}"
        check(len(self.tokens) >= 1, where, "at least 1 token", len(self.tokens), ValueRangeError)
        check(
            1 <= self.scored_from <= len(self.tokens),
            f"{where}: scored_from",
            f"1..{len(self.tokens)}",
            self.scored_from,
            ValueRangeError,
        )
        scores = self.n_scored >= 1 or self.own_reply
        check(scores, where, "something to score: an answer, new_tokens or earlier positions", "nothing", ValueRangeError)  # fmt: skip
        many = len(self.alternatives) != 1 and all(len(a) for a in self.alternatives)
        got = [len(a) for a in self.alternatives]
        check(many, f"{where}: alternatives", "none, or at least two that are not empty", got, ValueRangeError)  # fmt: skip

    @property
    def n_scored(self) -> int:
        """Predictions that are scored; 0 where the reference's own reply will be the answer."""
        return len(self.tokens) + len(self.answer) - self.scored_from

    @property
    def own_reply(self) -> bool:
        """Whether the answer is still to come from the reference."""
        return len(self.answer) == 0 and self.new_tokens > 0 and self.scored_from == len(self.tokens)

    @property
    def longest(self) -> int:
        """Most positions that any reading of this prompt takes."""
        return len(self.tokens) + max(len(self.answer), self.new_tokens, *map(len, self.alternatives), 0)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of everything that decides what a model does with it."""
        arrays = [self.tokens, self.answer, self.floor, *self.alternatives]
        return key_of(
            arrays=[array_digest(np.ascontiguousarray(a, "<i4")) for a in arrays],
            scored_from=self.scored_from,
            new_tokens=self.new_tokens,
            stop_ids=list(self.stop_ids),
            accept=list(self.accept),
            distractors=list(self.distractors),
        )

    def describe(self) -> dict[str, object]:
        """JSON-able form with digests in place of token ids."""
        own = {"workload": self.workload, "scored_from": self.scored_from, "digest": self.digest}
        return {**super().describe(), **own, "facts": dict(self.facts)}

    @classmethod
    def of(cls, document: Document) -> Prompt:
        """A document as a prompt of the workload "text": every token but the first is scored."""
        names = ("name", "style", "source", "licence", "sha256", "tokens", "answers")
        return cls(**{n: getattr(document, n) for n in names})
