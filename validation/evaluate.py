"""Attention of one layer: recorded while a model reads, then a cache's scores and outputs compared with exact ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tq_core.errors import ValueRangeError, check
from tq_core.model.exact_cache import ExactCache
from tq_core.model.interface import CacheLike, step_of
from tq_core.shapes import ModelShape
from validation.attention_scores import AttentionScores, exact_scores, score_rankings

Factory = Callable[[], Any]
Attended = tuple[np.ndarray, np.ndarray, np.ndarray]


class LayerRecorder:
    """Passes calls on to a cache and keeps queries, keys and values of some layers (float32, after RoPE)."""

    def __init__(self, cache: CacheLike, layers: Sequence[int]) -> None:
        self.cache = cache
        self.windows: dict[int, int | None] = {}  # sliding window of each layer that was recorded
        self._calls: dict[int, list[Attended]] = {layer: [] for layer in layers}

    @property
    def length(self) -> int:
        """Tokens in the cache behind this one."""
        return self.cache.length

    def step(self) -> AbstractContextManager[None]:
        """A step of the cache behind this one."""
        return step_of(self.cache)

    def attend(
        self,
        layer: int,
        queries: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        *,
        sliding_window: int | None = None,
    ) -> np.ndarray:
        """Attend through the cache behind this one."""
        if layer in self._calls:
            self._calls[layer].append((queries.copy(), keys.copy(), values.copy()))
            self.windows[layer] = sliding_window
        return self.cache.attend(layer, queries, keys, values, sliding_window=sliding_window)

    def recorded(self) -> dict[int, Attended]:
        """layer -> (queries, keys, values) of all tokens."""
        return {n: tuple(map(np.concatenate, zip(*c, strict=True))) for n, c in self._calls.items()}  # type: ignore[misc]


def checkpoints(n_tokens: int, count: int) -> list[int]:
    """``count`` cache lengths at which rankings are compared: evenly spaced over the second half, the last included."""
    check(n_tokens >= 2, "n_tokens", "at least 2", n_tokens, ValueRangeError)
    return sorted({int(t) for t in np.linspace(max(2, n_tokens // 2), n_tokens, count)})


def probe_attention(
    shape: ModelShape,
    factory: Factory,
    layer: int,
    attended: Attended,
    count: int = 4,
    sliding_window: int | None = None,
) -> AttentionScores:
    """Compare a cache with exact attention on the same queries, keys and values of one layer.

    A fresh cache from ``factory`` reads them; at ``count`` lengths the newest token's scores against
    everything that it sees are ranked beside float64 scores, and all attention outputs are compared.
    """
    queries, keys, values = attended
    cache, exact = factory(), ExactCache(shape)
    pairs, outputs, begin = [], [], 0
    for end in checkpoints(len(queries), count):
        piece = slice(begin, end)
        outputs.append(
            cache.attend(layer, queries[piece], keys[piece], values[piece], sliding_window=sliding_window)
        )
        low = 0 if sliding_window is None else max(0, end - sliding_window)
        scores = cache.scores(layer, queries[end - 1])[:, low:]
        pairs.append((exact_scores(queries[end - 1], keys[low:end]), scores))
        begin = end
    reference = exact.attend(
        layer, queries[:begin], keys[:begin], values[:begin], sliding_window=sliding_window
    )
    return score_rankings(pairs, (reference, np.concatenate(outputs)))
