"""Attention of one token over the parts of a layer's history, each with a softmax state, merged at the end.

A state is, per query head, the largest logit (peak, in units of log 2), the sum of 2^(logit - peak) (total) and the
sum of values under those weights (out). Parts never see each other, and no part is decoded.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.codecs import turbo_step
from tq_core.codecs.base import KeyCodec, Pages, ValueCodec
from tq_core.kernels.backend import Backend
from tq_core.math import lanes

F32 = npt.NDArray[np.float32]


class SoftmaxStates:
    """Collects the states of one token's queries (n_query_heads, head_dim), float32."""

    def __init__(self, backend: Backend, queries: F32, scale: float) -> None:
        self._backend, self._queries, self._scale = backend, queries, scale
        self._peaks: list[F32] = []
        self._totals: list[F32] = []
        self._outs: list[F32] = []
        self._workspace = 0

    def add_half(self, pages: Pages, n_tokens: int, first: int) -> None:
        """Tokens stored as float16 rows, from logical slot ``first`` on."""
        if n_tokens == 0:
            return
        heads = len(self._queries)
        peak, total = np.full(heads, -np.inf, np.float32), np.zeros(heads, np.float32)
        out = np.zeros_like(self._queries)
        self._backend.call(
            "attend_half", query=self._queries, pages=pages.table, layout=pages.layout.words, pool=pages.pool,
            peak=peak, total=total, out=out, n_kv_heads=pages.layout.n_kv_heads, n_tokens=n_tokens, first=first,
            scale=self._scale * turbo_step.LOG2_E,
        )  # fmt: skip
        self._add(peak[None], total[None], out[None])

    def add_packed(self, keys: KeyCodec, values: ValueCodec, pages: Pages, n_tokens: int) -> None:
        """Packed tokens: in one pass where the pair of codecs has a fused step, else scores, softmax, sums."""
        if n_tokens == 0:
            return
        pair = turbo_step.fusable(keys, values)
        if pair is not None:
            self._add(*turbo_step.attend(self._backend, *pair, self._queries, self._scale, pages, n_tokens))
            return
        scores = np.empty((len(self._queries), n_tokens), np.float32)
        keys.scores(self._backend, self._queries, self._scale * turbo_step.LOG2_E, pages, n_tokens, scores, 0)
        peak = scores.max(axis=1)
        weights = lanes.exp2_f32(scores - peak[:, None])
        out = np.zeros_like(self._queries)
        values.weighted_sum(self._backend, weights, pages, n_tokens, 0, out)
        self._workspace = max(self._workspace, scores.nbytes + weights.nbytes)
        self._add(peak[None], lanes.lane_sum(weights)[None], out[None])

    def _add(self, peaks: F32, totals: F32, outs: F32) -> None:
        self._peaks.append(peaks)
        self._totals.append(totals)
        self._outs.append(outs)

    @property
    def nbytes(self) -> int:
        """Bytes of the states and of the largest workspace."""
        return self._workspace + sum(
            a.nbytes for part in (self._peaks, self._totals, self._outs) for a in part
        )

    def merged(self) -> F32:
        """The attention output (n_query_heads, head_dim); zeros when no part holds a token."""
        out = np.zeros_like(self._queries)
        if self._peaks:
            peaks, totals, outs = (np.concatenate(p) for p in (self._peaks, self._totals, self._outs))
            self._backend.call("merge_states", peaks=peaks, totals=totals, outs=outs, y=out)
        return out
