"""Bytes of a cache against context length, from the buffers that a cache of that length allocates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.planned import longest, planned
from tq_core.codecs.arms import Arm
from tq_core.shapes import ModelShape


def cache_bytes(shape: ModelShape, arm: Arm, n_tokens: int) -> int:
    """Bytes that a cache holds when room for ``n_tokens`` is reserved: pages, window, tables."""
    return PagedCache(shape, arm, reserve_tokens=n_tokens).ledger().total


def filled(shape: ModelShape, arm: Arm, n_tokens: int, seed: int = 1) -> PagedCache:
    """A cache with ``n_tokens`` Gaussian tokens in every layer; the last ``flush_tokens`` + 1 came by decode steps."""
    rng, first = np.random.default_rng(seed), max(n_tokens - arm.flush_tokens - 1, 0)
    cache = PagedCache(shape, arm, reserve_tokens=n_tokens)
    for layer in range(shape.n_layers):
        heads = (shape.n_query_heads, shape.n_kv_heads, shape.n_kv_heads)
        q, k, v = (rng.standard_normal((n_tokens, h, shape.head_dim)).astype(np.float32) for h in heads)
        cache.append(layer, k[:first], v[:first])
        for i in range(first, n_tokens):
            cache.attend(layer, q[i : i + 1], k[i : i + 1], v[i : i + 1])
    return cache


def against_context(
    shape: ModelShape, arms: Mapping[str, Arm], contexts: Sequence[int]
) -> dict[str, list[float]]:
    """MiB of each arm at each context length."""
    return {name: [cache_bytes(shape, arm, n) / 2**20 for n in contexts] for name, arm in arms.items()}


def longest_context(shape: ModelShape, arm: Arm, budget: int) -> int:
    """Tokens that fit into ``budget`` bytes while one more does not, from the plan of such a cache."""
    return longest(lambda n_tokens: planned(shape, arm, n_tokens).total, budget)
