"""One layer's attention read through a cache, beside the exact one: the numbers of the layer notebooks.

Given queries, keys and values of one layer after RoPE, the first tokens are appended to a real cache
and the last ones are decoded one by one, as in use. What the cache answers is compared with float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tq_core.cache.accounting import Ledger
from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm
from tq_core.kernels.backend import Backend, get_backend
from tq_core.shapes import ModelShape
from tq_core.show.prefill import prefill

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
DECODED = 8  # last tokens, whose queries are compared
TOP = 10


def _ranks(x: F64) -> F64:
    return np.argsort(np.argsort(x, axis=-1), axis=-1).astype(np.float64)


def rank_agreement(a: F64, b: F64) -> F64:
    """Spearman's rank correlation over the last axis: 1 when both order the tokens alike."""
    ra, rb = _ranks(a), _ranks(b)
    ra -= ra.mean(axis=-1, keepdims=True)
    rb -= rb.mean(axis=-1, keepdims=True)
    return (ra * rb).sum(axis=-1) / np.sqrt((ra * ra).sum(axis=-1) * (rb * rb).sum(axis=-1))


def top_overlap(a: F64, b: F64, k: int) -> F64:
    """Share of the k largest of ``a`` that are among the k largest of ``b``, over the last axis."""
    chosen = np.zeros(a.shape, bool), np.zeros(a.shape, bool)
    for mask, x in zip(chosen, (a, b), strict=True):
        np.put_along_axis(mask, np.argpartition(x, -k, axis=-1)[..., -k:], True, axis=-1)
    return (chosen[0] & chosen[1]).sum(axis=-1) / k


def softmax(scores: F64) -> F64:
    """Softmax over the last axis."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class Reading:
    """Exact and cached logits of the decoded tokens (one array (n_query_heads, n_tokens) each), and the losses.

    rank, top1, top10: means over heads and decoded tokens. kl: KL(exact || cached) of the attention weights in
    nats. output_error (n_query_heads,): ||cached - exact|| / ||exact|| of the attention output.
    """

    exact: tuple[F64, ...]
    cached: tuple[F64, ...]
    output_error: F64
    ledger: Ledger

    def _mean(self, measure: object) -> float:
        return float(np.mean([measure(a, b) for a, b in zip(self.exact, self.cached, strict=True)]))  # type: ignore[operator]

    @cached_property
    def rank(self) -> float:
        return self._mean(rank_agreement)

    @cached_property
    def top1(self) -> float:
        return self._mean(lambda a, b: a.argmax(axis=-1) == b.argmax(axis=-1))

    @cached_property
    def top10(self) -> float:
        return self._mean(lambda a, b: top_overlap(a, b, min(TOP, a.shape[-1])))

    @cached_property
    def kl(self) -> float:
        def one(a: F64, b: F64) -> F64:
            p, q = softmax(a), softmax(b)
            return np.sum(p * (np.log(p) - np.log(q)), axis=-1)

        return self._mean(one)

    @property
    def mean_output_error(self) -> float:
        return float(self.output_error.mean())


class LayerBench:
    """Queries (n_tokens, n_query_heads, d), keys and values (n_tokens, n_kv_heads, d) of one layer, and the exact answers.

    ``decoded``: how many of the last tokens are decoded one by one and compared.
    """

    def __init__(
        self, queries: F32, keys: F32, values: F32, backend: Backend | None = None, decoded: int = DECODED
    ) -> None:
        n, heads, d = queries.shape
        self.shape = ModelShape(1, heads, keys.shape[1], d)
        self.queries, self.keys, self.values = (
            np.ascontiguousarray(a, np.float32) for a in (queries, keys, values)
        )
        self.backend = backend or get_backend()
        self.history = n - decoded
        group = self.shape.group_size_heads
        k = np.repeat(self.keys.astype(np.float64), group, axis=1)
        v = np.repeat(self.values.astype(np.float64), group, axis=1)
        exact, outputs = [], []
        for t in range(self.history, n):
            scores = np.einsum("hd,thd->ht", self.queries[t].astype(np.float64), k[: t + 1]) / np.sqrt(d)
            exact.append(scores)
            outputs.append(np.einsum("ht,thd->hd", softmax(scores), v[: t + 1]))
        self.exact, self._outputs = tuple(exact), np.stack(outputs)

    @property
    def n_tokens(self) -> int:
        """Tokens of the layer."""
        return len(self.keys)

    def read(self, arm: Arm) -> Reading:
        """Fill a cache of this arm and decode the last tokens through it."""
        h, cache = self.history, PagedCache(self.shape, arm, self.backend, reserve_tokens=self.n_tokens)
        prefill(cache, 0, self.keys[:h], self.values[:h])
        cached, outputs = [], []
        for t in range(h, self.n_tokens):
            one = slice(t, t + 1)
            outputs.append(cache.attend(0, self.queries[one], self.keys[one], self.values[one])[0])
            cached.append(cache.scores(0, self.queries[t]).astype(np.float64))
        difference = np.linalg.norm(np.stack(outputs) - self._outputs, axis=-1)
        error = difference / np.linalg.norm(self._outputs, axis=-1)
        return Reading(self.exact, tuple(cached), error.mean(axis=0), cache.ledger())
