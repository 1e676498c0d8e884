"""Recording the queries, keys and values that a model hands to its cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tq_core.model.exact_cache import ExactCache
from tq_core.model.interface import CacheLike, LanguageModel, forward_chunks, step_of


class RecordingCache:
    """Passes every call on to another cache and keeps copies of the arguments.

    ``calls[layer]`` lists (queries, keys, values) of each call for that layer, float32, after RoPE.
    """

    def __init__(self, cache: CacheLike, n_layers: int) -> None:
        self.cache = cache
        self.calls: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = [[] for _ in range(n_layers)]

    @property
    def length(self) -> int:
        """Tokens in the cache behind this one."""
        return self.cache.length

    @contextmanager
    def step(self) -> Iterator[None]:
        """A step of the cache behind this one; left by an exception, its calls are not recorded either."""
        counts = [len(calls) for calls in self.calls]
        try:
            with step_of(self.cache):
                yield
        except BaseException:
            for calls, count in zip(self.calls, counts):
                del calls[count:]
            raise

    def attend(
        self,
        layer: int,
        queries: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        *,
        sliding_window: int | None = None,
    ) -> np.ndarray:
        """Attend through the cache behind this one; record the arguments once it has accepted them."""
        copies = queries.copy(), keys.copy(), values.copy()
        output = self.cache.attend(layer, queries, keys, values, sliding_window=sliding_window)
        self.calls[layer].append(copies)
        return output


def capture_qkv(
    model: LanguageModel, tokens: Sequence[int] | np.ndarray, cache: CacheLike | None = None
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Per layer: queries (n_tokens, n_query_heads, head_dim), keys and values (.., n_kv_heads, ..).

    All float32 and after RoPE, as the cache receives them. With ``cache`` None, attention is exact;
    otherwise its errors reach the later layers, as in use. Raises the errors of ``check_tokens``.
    """
    recorder = RecordingCache(cache or ExactCache(model.shape), model.shape.n_layers)
    for _ in forward_chunks(model, tokens, recorder):
        pass
    return [tuple(np.concatenate(part) for part in zip(*calls, strict=True)) for calls in recorder.calls]  # type: ignore[misc]
