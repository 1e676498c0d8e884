"""What a conformance check works on: one codec, pages to write in, and tokens, queries and weights to use.

The block table is scrambled and the pool has pages that belong to nobody, so that a codec which ignores the
table, or writes outside its streams, shows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tq_core.codecs.base import F32, Pages
from tq_core.errors import TqError
from tq_core.kernels.backend import Backend
from tq_core.kernels.layout import PageLayout


class CheckFailed(TqError):
    """A codec breaks a promise; the message holds the check, the codec, what was expected and what came."""


@dataclass(frozen=True)
class Bench:
    """A codec under test: ``n_kv_heads`` heads of ``head_dim`` channels, ``group`` query heads per KV head."""

    codec: Any
    backend: Backend
    head_dim: int = 48
    n_kv_heads: int = 2
    group: int = 3

    @property
    def is_key(self) -> bool:
        """Whether the codec stores keys (it has scores) or values (it has weighted_sum)."""
        return hasattr(self.codec, "scores")

    @property
    def some(self) -> int:
        """A number of tokens that the codec accepts and that fills no page of 128."""
        flush = int(self.codec.flush_tokens)
        return -(-37 // flush) * flush

    def tokens(self, n: int, seed: int = 0) -> F32:
        """(n, n_kv_heads, head_dim) Gaussian float32 whose values float16 holds exactly, as the cache delivers them."""
        x = 3 * np.random.default_rng(seed).standard_normal((n, self.n_kv_heads, self.head_dim))
        return x.astype(np.float16).astype(np.float32)

    def queries(self, seed: int = 1) -> F32:
        """(n_query_heads, head_dim) Gaussian float32.

        A stream of their own: a dense rotation with the same seed starts from the same numbers, and its first columns
        would lie along the queries.
        """
        shape = (self.n_kv_heads * self.group, self.head_dim)
        return np.random.default_rng([seed, self.head_dim]).standard_normal(shape).astype(np.float32)

    def weights(self, n: int, seed: int = 2) -> F32:
        """(n_query_heads, n) float32 weights that sum to one, some nearly all on one token."""
        logits = 2 * np.random.default_rng(seed).standard_normal((self.n_kv_heads * self.group, n))
        w = np.exp(logits * np.arange(1, len(logits) + 1)[:, None] / 2)
        return (w / w.sum(axis=1, keepdims=True)).astype(np.float32)

    def pages(self, n_tokens: int, fill: int = 0, seed: int = 3) -> Pages:
        """Room for ``n_tokens`` in a pool whose every byte is ``fill``, with three pages to spare.

        The first and the last page of the pool belong to nobody, so that bytes written outside a page stay in it.
        """
        layout = PageLayout(self.n_kv_heads, self.codec.page_tokens, self.codec.streams(self.head_dim))
        n_pages = -(-n_tokens // layout.page_tokens)
        table = np.random.default_rng(seed).permutation(n_pages + 1)[:n_pages].astype(np.uint32) + np.uint32(
            1
        )
        return Pages(np.full((n_pages + 3) * layout.page_bytes, fill, np.uint8), table, layout, 0, 0)

    def store(self, x: F32, step: int | None = None, fill: int = 0) -> Pages:
        """Append x to fresh pages, ``step`` tokens at a time (all at once by default)."""
        pages, step = self.pages(len(x), fill), step or max(len(x), 1)
        for first in range(0, len(x), step):
            self.codec.append(self.backend, pages, first, np.ascontiguousarray(x[first : first + step]))
        return pages

    def decode(self, pages: Pages, n: int) -> F32:
        """The first n tokens as the codec reconstructs them."""
        out: F32 = self.codec.decode(pages, n, self.head_dim)
        return out

    def read(self, pages: Pages, n: int, given: F32, scale: float = 1.0) -> F32:
        """Scores (n_query_heads, n) of queries, or weighted sums (n_query_heads, head_dim) under weights."""
        if self.is_key:
            out = np.full((len(given), n), np.nan, np.float32)
            self.codec.scores(self.backend, given, scale, pages, n, out, 0)
        else:
            out = np.zeros((len(given), self.head_dim), np.float32)
            self.codec.weighted_sum(self.backend, given, pages, n, 0, out)
        return out

    def question(self, n: int) -> F32:
        """What ``read`` takes for this side: queries or weights."""
        return self.queries() if self.is_key else self.weights(n)

    def exact(self, decoded: F32, given: F32) -> tuple[np.ndarray, np.ndarray]:
        """What ``read`` should give, in float64 from decoded tokens, and the size of what was added up."""
        tokens = np.repeat(
            decoded.astype(np.float64), self.group, axis=1
        )  # query head h reads KV head h // group
        norms = np.linalg.norm(tokens, axis=2).T
        if self.is_key:
            return np.einsum("qd,tqd->qt", given, tokens), np.linalg.norm(given, axis=1)[:, None] * norms
        return np.einsum("qt,tqd->qd", given, tokens), (np.abs(given) * norms).sum(axis=1, keepdims=True)

    def with_backend(self, backend: Backend) -> Bench:
        """The same bench on another backend."""
        return replace(self, backend=backend)
