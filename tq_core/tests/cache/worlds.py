"""Small caches, their inputs, and exact attention in float64 to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm, get_arm
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.kernels.backend import NumpyBackend
from tq_core.shapes import ModelShape

SHAPE = ModelShape(n_layers=2, n_query_heads=6, n_kv_heads=2, head_dim=48)
ARMS = ("fp16", "structured-turbo", "kivi-control")


def arm(name: str, **options: Any) -> Arm:
    """An arm; the fp16 arm, which has no window, leaves that option out. "paged-halves" stores float16 in packed pages."""
    if name == "paged-halves":
        return Arm(name, HalfKeys(), HalfValues(), options["window"], options.get("sinks", 0))
    if name == "fp16":
        options = {k: v for k, v in options.items() if k == "sinks"}
    return get_arm(name, **options)


def make(name: str, shape: ModelShape = SHAPE, reserve_tokens: int = 0, **options: Any) -> PagedCache:
    """A cache on the numpy backend."""
    return PagedCache(shape, arm(name, **options), NumpyBackend(), reserve_tokens)


def tokens(n: int, shape: ModelShape = SHAPE, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries, keys and values of n tokens, Gaussian float32."""
    rng = np.random.default_rng(seed)
    heads = (shape.n_query_heads, shape.n_kv_heads, shape.n_kv_heads)
    q, k, v = (rng.standard_normal((n, h, shape.head_dim)).astype(np.float32) for h in heads)
    return q, k, v


def exact_scores(shape: ModelShape, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Logits (n_query_heads, n_tokens) in float64; query head h reads KV head h // group."""
    spread = np.repeat(keys.astype(np.float64), shape.group_size_heads, axis=1)
    return np.einsum("hd,thd->ht", queries, spread) / np.sqrt(shape.head_dim)


def exact_attention(
    shape: ModelShape, queries: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """One token's attention (n_query_heads, head_dim) in float64 over all given keys and values."""
    logits = exact_scores(shape, queries, keys)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum(
        "ht,thd->hd", weights, np.repeat(values.astype(np.float64), shape.group_size_heads, axis=1)
    )


def half(x: np.ndarray) -> np.ndarray:
    """What float16 storage makes of x."""
    return x.astype(np.float16).astype(np.float32)
