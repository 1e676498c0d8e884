"""The tiny transformer's retrieval task under several arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm
from tq_core.model.interface import LanguageModel
from tq_core.model.tiny_task import Episode, RetrievalScore, score_retrieval


def score_arms(
    model: LanguageModel,
    arms: Mapping[str, Arm],
    episodes: Sequence[Episode],
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[str, RetrievalScore]:
    """Every arm on the same episodes; ``progress`` is called with ("arms", done, total)."""
    n = max(len(e.tokens) for e in episodes)

    def cache_of(arm: Arm) -> PagedCache:
        return PagedCache(model.shape, arm, reserve_tokens=n)

    scores: dict[str, RetrievalScore] = {}
    for name, arm in arms.items():
        scores[name] = score_retrieval(model, partial(cache_of, arm), episodes)
        progress("arms", len(scores), len(arms))
    return scores


def by_distance(score: RetrievalScore, edges: Sequence[int]) -> list[float]:
    """Share of right answers among the questions whose binding lies edges[i] to edges[i+1] tokens back; nan where none does."""
    distances, correct = np.array(score.distances), np.array(score.correct)
    shares = []
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        inside = (distances >= low) & (distances < high)
        shares.append(float(correct[inside].mean()) if inside.any() else float("nan"))
    return shares
