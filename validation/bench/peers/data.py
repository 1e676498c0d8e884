"""The work that every peer does: the same vectors, drawn from the same seed, and the same answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

F32 = np.ndarray


@dataclass
class Prepared:
    """A contestant, ready: ``run(layer)`` is one step, ``output()`` the last one's (n_query_heads, head_dim).

    ``payload_bytes`` are the bytes of keys and values that one step reads, as the library stores them.
    """

    run: Callable[[int], Any]
    payload_bytes: int
    layers: int = 1
    output: Callable[[], F32] | None = None
    checked: str = "not compared"


@dataclass(frozen=True)
class Work:
    """One layer's decode step. All arrays float32."""

    n_query_heads: int
    n_kv_heads: int
    head_dim: int
    tokens: int
    threads: int
    cold_bytes: int  # 0: one layer, else rotate over layers that exceed this together
    seed: int

    @classmethod
    def of(cls, request: dict[str, Any]) -> Work:
        names = ("n_query_heads", "n_kv_heads", "head_dim", "tokens", "threads", "cold_bytes", "seed")
        return cls(**{name: int(request[name]) for name in names})

    @property
    def scale(self) -> float:
        return float(np.float32(1.0 / np.sqrt(self.head_dim)))

    @cached_property
    def _drawn(self) -> tuple[F32, F32, F32]:
        random = np.random.default_rng(self.seed)
        queries = random.standard_normal((self.n_query_heads, self.head_dim), np.float32)
        shape = (self.tokens, self.n_kv_heads, self.head_dim)
        return queries, random.standard_normal(shape, np.float32), random.standard_normal(shape, np.float32)

    @property
    def queries(self) -> F32:
        """(n_query_heads, head_dim)"""
        return self._drawn[0]

    @property
    def folded(self) -> F32:
        """(n_kv_heads, query heads per KV head, head_dim): the heads that share keys are rows of one product."""
        return self.queries.reshape(self.n_kv_heads, -1, self.head_dim)

    @cached_property
    def keys(self) -> F32:
        """(n_kv_heads, n_tokens, head_dim), contiguous"""
        return np.ascontiguousarray(self._drawn[1].swapaxes(0, 1))

    @cached_property
    def values(self) -> F32:
        """(n_kv_heads, n_tokens, head_dim), contiguous"""
        return np.ascontiguousarray(self._drawn[2].swapaxes(0, 1))

    def layers(self, layer_bytes: int) -> int:
        """Layers to rotate over, each of ``layer_bytes``."""
        return -(-self.cold_bytes // layer_bytes) if self.cold_bytes else 1

    @cached_property
    def expected(self) -> F32:
        """float32 attention over the vectors, (n_query_heads, head_dim)"""
        scores = np.matmul(self.folded, self.keys.swapaxes(1, 2)) * np.float32(self.scale)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return np.matmul(weights, self.values).reshape(self.queries.shape)

    def compare(self, got: F32) -> str:
        """Largest difference to ``expected``, relative to the largest magnitude."""
        want = self.expected
        error = float(
            np.abs(np.asarray(got, np.float32).reshape(want.shape) - want).max() / np.abs(want).max()
        )
        return f"relative error {error:.1e} to float32"
