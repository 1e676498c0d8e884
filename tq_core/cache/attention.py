"""Attention of one token over the parts of a layer's history, each with a softmax state, merged at the end.

A state is, per query head, the largest logit (peak, in units of log 2), the sum of 2^(logit - peak) (total) and the
sum of values under those weights (out). Parts never see each other, and no part is decoded. Several sequences go
through a step together, each with a history of its own; they share the query transform and the threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from tq_core.codecs import turbo_step
from tq_core.codecs.base import KeyCodec, Pages, ValueCodec
from tq_core.kernels.backend import Backend
from tq_core.kernels.threads import run_units
from tq_core.math import lanes

F32 = npt.NDArray[np.float32]


class SoftmaxStates:
    """Collects the states of one token's queries of each sequence, (n_sequences, n_query_heads, head_dim) float32.

    Every ``add_`` takes one part of the history per sequence, in token order; an empty part adds nothing.
    """

    def __init__(self, backend: Backend, queries: F32, scale: float, threads: int = 1) -> None:
        self._backend, self._queries, self._scale, self._threads = backend, queries, scale, threads
        self._parts: list[list[turbo_step.States]] = [[] for _ in queries]
        self._workspace = 0

    def add_half(self, parts: Sequence[tuple[Pages, int, int]]) -> None:
        """(pages, n_tokens, first): tokens stored as float16 rows, from logical slot ``first`` on."""
        units = []
        for states, query, (pages, n_tokens, first) in zip(self._parts, self._queries, parts, strict=True):
            if n_tokens == 0:
                continue
            state = self._empty(len(query))
            states.append(state)
            unit = partial(
                self._backend.call, "attend_half", query=query, pages=pages.table, layout=pages.layout.words,
                pool=pages.pool, peak=state[0][0], total=state[1][0], out=state[2][0],
                n_kv_heads=pages.layout.n_kv_heads, n_tokens=n_tokens, first=first, scale=self._scale * turbo_step.LOG2_E,
            )  # fmt: skip
            units.append(unit)
        run_units(units, self._threads)

    def add_packed(self, keys: KeyCodec, values: ValueCodec, parts: Sequence[tuple[Pages, int]]) -> None:
        """(pages, n_tokens): in one pass where the pair of codecs has a fused step, else scores, softmax, sums."""
        pair = turbo_step.fusable(keys, values)
        if pair is not None:
            if any(n_tokens for _, n_tokens in parts):
                made = turbo_step.attend_batch(
                    self._backend, *pair, self._queries, self._scale, parts, self._threads
                )
                for states, state in zip(self._parts, made, strict=True):
                    if len(state[0]):
                        states.append(state)
            return
        longest = max((n_tokens for _, n_tokens in parts), default=0)
        score_bytes = self._queries.itemsize * self._queries.shape[1] * longest
        self._workspace = max(self._workspace, 2 * score_bytes)  # logits and weights
        units = []
        for states, query, (pages, n_tokens) in zip(self._parts, self._queries, parts, strict=True):
            if n_tokens:
                state = self._empty(len(query))
                states.append(state)
                units.append(partial(self._unfused, keys, values, query, pages, n_tokens, state))
        run_units(units, self._threads)

    def _unfused(
        self, keys: KeyCodec, values: ValueCodec, query: F32, pages: Pages, n_tokens: int, state: turbo_step.States
    ) -> None:  # fmt: skip
        peak, total, out = (part[0] for part in state)
        scores = np.empty((len(query), n_tokens), np.float32)
        keys.scores(self._backend, query, self._scale * turbo_step.LOG2_E, pages, n_tokens, scores, 0)
        peak[:] = scores.max(axis=1)
        weights = lanes.exp2_f32(scores - peak[:, None])
        values.weighted_sum(self._backend, weights, pages, n_tokens, 0, out)
        total[:] = lanes.lane_sum(weights)

    def _empty(self, heads: int) -> turbo_step.States:
        """The state of a part in which nothing has been seen, with an axis of length 1 in front."""
        peaks, totals = np.full((1, heads), -np.inf, np.float32), np.zeros((1, heads), np.float32)
        return peaks, totals, np.zeros((1, heads, self._queries.shape[2]), np.float32)

    @property
    def nbytes(self) -> int:
        """Bytes of the states and of the workspaces that are alive at once."""
        states = sum(a.nbytes for part in self._parts for state in part for a in state)
        return self._workspace * min(self._threads, len(self._queries)) + states

    def merged(self) -> F32:
        """The attention outputs, shaped like the queries; zeros for a sequence whose parts hold no token."""
        out = np.zeros_like(self._queries)
        units = []
        for y, parts in zip(out, self._parts):
            if parts:
                peaks, totals, outs = (np.concatenate(arrays) for arrays in zip(*parts))
                call = partial(self._backend.call, "merge_states", y=y)
                units.append(partial(call, peaks=peaks, totals=totals, outs=outs))
        run_units(units, self._threads if len(units) > 1 else 1)
        return out
