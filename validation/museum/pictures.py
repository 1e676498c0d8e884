"""Arrays behind the pictures of the notebook; the drawing is in tq_core.show."""

from __future__ import annotations

import numpy as np

from tq_core.math.block_maps import SplitBlocks
from validation.museum.catalogue import get
from validation.museum.exhibit import Shown


def there_and_back(head_dim: int = 96, seed: int = 1) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A normal vector, and what is left of it after its rotation and back, with each block's own root and with one root."""
    x = np.random.default_rng(seed).standard_normal(head_dim).astype(np.float32)
    back = {}
    for label, own_size in (("root of each block's size", True), ("one root for all", False)):
        blocks = SplitBlocks((head_dim,), seed, own_size)
        back[label] = blocks.transpose(blocks.forward(x))
    return x, back


def logits(name: str, head: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Exact attention logits of an exhibit's last query in one head, and those of the right and the faulty result."""
    exhibit = get(name)
    given = exhibit.given()
    made = {"right": exhibit.right(given), "faulty": exhibit.faulty(given)}
    exact = made["right"].rankings[-1][0][head]
    return exact, {label: trial.rankings[-1][1][head] for label, trial in made.items()}


def ruined(name: str = "G6") -> tuple[list[str], list[float], float]:
    """Mean divergence of the planted bad arm under both tests of an exhibit, and the limit that must stop it."""
    exhibit = get(name)
    given = exhibit.given()
    tests = {"with distractors": exhibit.right(given), "the query is the key": exhibit.faulty(given)}
    found = [float(np.mean(t.findings.planted_bad.scores.kl)) for t in tests.values()]
    limit = next(iter(tests.values())).findings.plan.kl_budget
    return list(tests), [max(value, 1e-9) for value in found], limit


def share_fooled(every: list[Shown]) -> dict[str, float]:
    """Metric to the share of exhibits, of those it has a number for, in which the faulty result looks as good or better."""
    out = {}
    for name in every[0].right.as_dict():
        asked = [s for s in every if getattr(s.right, name) is not None]
        if asked:
            out[name] = sum(name in s.blind() for s in asked) / len(asked)
    return out
