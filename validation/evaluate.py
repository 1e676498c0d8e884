"""Arms in lockstep: every cache reads the same chunk of the same document before the next chunk is read.

Each arm is teacher-forced on the document's own tokens, so its errors pass through all layers and
positions while the text stays the same. Logits are reduced chunk by chunk: memory does not grow with the
text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tq_core.errors import ValueRangeError, check
from tq_core.model.exact_cache import ExactCache
from tq_core.model.interface import CacheLike, LanguageModel, step_of
from tq_core.shapes import ModelShape
from validation.attention_scores import AttentionScores, exact_scores, score_rankings
from validation.logit_scores import Reference, TokenScores

CHUNK_TOKENS = 64
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


@dataclass(frozen=True)
class DocumentResult:
    """One document read by several caches: (reference, arm) -> scores, and the caches as they were left."""

    scores: dict[tuple[str, str], TokenScores]
    caches: dict[str, Any]
    seconds: dict[str, float]


def read_document(
    model: LanguageModel,
    tokens: np.ndarray,
    caches: Mapping[str, Any],
    pairs: Sequence[tuple[str, str]],
    chunk_tokens: int = CHUNK_TOKENS,
) -> Iterator[int | DocumentResult]:
    """Feed ``tokens`` to every cache; yield the tokens read after each chunk, then the DocumentResult.

    ``pairs`` are (reference label, arm label). Scored are the predictions of tokens 1.. of the document.
    Raises ValueRangeError for fewer than two tokens or an unknown label.
    """
    check(len(tokens) >= 2, "tokens", "at least 2", len(tokens), ValueRangeError)
    unknown = sorted({label for pair in pairs for label in pair} - set(caches))
    check(not unknown, "pairs", f"labels among {', '.join(caches)}", ", ".join(unknown), ValueRangeError)
    parts: dict[tuple[str, str], list[TokenScores]] = {pair: [] for pair in pairs}
    seconds = dict.fromkeys(caches, 0.0)
    for start in range(0, len(tokens), chunk_tokens):
        piece = tokens[start : start + chunk_tokens]
        targets = tokens[start + 1 : start + 1 + len(piece)]
        logits = {}
        for label, cache in caches.items():
            begun = time.perf_counter()
            logits[label] = model.forward(piece, cache)[: len(targets)]
            seconds[label] += time.perf_counter() - begun
        if len(targets):
            references = {r: Reference(logits[r], targets) for r in {r for r, _ in pairs}}
            for pair in pairs:
                parts[pair].append(references[pair[0]].compare(logits[pair[1]]))
        yield start + len(piece)
    yield DocumentResult({p: TokenScores.join(s) for p, s in parts.items()}, dict(caches), seconds)


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
