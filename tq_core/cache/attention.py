"""Attention of one token over the parts of a layer's history, each with a softmax state, merged at the end.

A state is, per query head, the largest logit (peak, in units of log 2), the sum of 2^(logit - peak) (total) and the
sum of values under those weights (out). Parts never see each other, and no part is decoded. Several sequences go
through a step together, each with a history of its own; they share the query transform and the threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from tq_core.codecs import turbo_step
from tq_core.codecs.base import KeyCodec, Pages, ValueCodec
from tq_core.errors import DTypeError, ShapeError, ValueRangeError, check
from tq_core.kernels.backend import Backend
from tq_core.kernels.threads import run_units
from tq_core.math import lanes

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Mask:
    """What limits or joins a token's softmax beyond causality.

    sink_logits: (n_query_heads,) float32, a learned logit per head that takes a share of the softmax and has no value
    (gpt-oss); minus infinity is none. sliding_window: newest tokens that a query sees, itself included. Raises
    DTypeError, ShapeError or ValueRangeError when checked.
    """

    sink_logits: F32 | None = None
    sliding_window: int | None = None

    def check(self, n_query_heads: int) -> None:
        """Raise unless sink_logits is None or as above and below infinity, sliding_window None or at least 1."""
        sinks, window = self.sink_logits, self.sliding_window
        if sinks is not None:
            if not isinstance(sinks, np.ndarray) or sinks.dtype != np.float32:
                got = getattr(sinks, "dtype", type(sinks).__name__)
                raise DTypeError(f"sink_logits: expected a float32 array, got {got}")
            heads = (n_query_heads,)
            check(sinks.shape == heads, "sink_logits", f"shape {heads}", sinks.shape, ShapeError)
            below = bool((sinks < np.inf).all())  # false for NaN too
            check(below, "sink_logits", "numbers below infinity", sinks.max(), ValueRangeError)
        whole = isinstance(window, (int, np.integer)) and not isinstance(window, bool)
        ok = window is None or (whole and window >= 1)
        check(ok, "sliding_window", "None or at least 1 token", repr(window), ValueRangeError)

    def hidden(self, *counts: int) -> list[int]:
        """Oldest tokens that are hidden in each part of the history, from the parts' counts in token order."""
        left = 0 if self.sliding_window is None else max(0, sum(counts) - self.sliding_window)
        out = []
        for count in counts:
            out.append(min(left, count))
            left -= out[-1]
        return out


NO_MASK = Mask()


def attend_unfused(
    backend: Backend, keys: KeyCodec, values: ValueCodec, query: F32, scale: float, pages: Pages, n_tokens: int,
    first: int, state: turbo_step.States,
) -> None:  # fmt: skip
    """Move the first part of a state over slots first..n_tokens-1: all scores, their softmax, the sums.

    Run by run of pages with the state carried on, so that scratch does not grow with the history.
    """
    peak, total, out = (part[0] for part in state)
    for slot, count, run in pages.runs(n_tokens, turbo_step.CHUNK_PAGES):
        if slot + count <= first:
            continue
        scores = np.empty((len(query), count), np.float32)
        keys.scores(backend, query, scale * turbo_step.LOG2_E, run, count, scores, 0)
        scores[:, : max(first - slot, 0)] = -np.inf
        raised = np.maximum(peak, scores.max(axis=1))
        shrink = lanes.exp2_f32(peak - raised)
        weights = lanes.exp2_f32(scores - raised[:, None])
        out *= shrink[:, None]
        values.weighted_sum(backend, weights, run, count, 0, out)
        total[:] = total * shrink + lanes.lane_sum(weights)
        peak[:] = raised


def empty_states(parts: int, rows: int, head_dim: int) -> turbo_step.States:
    """States in which nothing has been seen: peaks (parts, rows), totals, outs (parts, rows, head_dim)."""
    peaks, totals = np.full((parts, rows), -np.inf, np.float32), np.zeros((parts, rows), np.float32)
    return peaks, totals, np.zeros((parts, rows, head_dim), np.float32)


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
            state = empty_states(1, *query.shape)
            states.append(state)
            unit = partial(
                self._backend.call, "attend_half", query=query, pages=pages.table, layout=pages.layout.words,
                pool=pages.pool, peak=state[0][0], total=state[1][0], out=state[2][0],
                n_kv_heads=pages.layout.n_kv_heads, n_tokens=n_tokens, first=first, scale=self._scale * turbo_step.LOG2_E,
            )  # fmt: skip
            units.append(unit)
        run_units(units, self._threads)

    def add_packed(
        self,
        keys: KeyCodec,
        values: ValueCodec,
        parts: Sequence[tuple[Pages, int, int]],
        shifts: Sequence[F32 | float] | None = None,
    ) -> None:
        """(pages, end, first): slots first..end-1, in one pass where the codecs have a fused step, else in three.

        shifts: per sequence (n_query_heads,), what every logit here lacks; adding it moves the peak alone.
        """
        given = [len(states) for states in self._parts]
        self._pack(keys, values, parts)
        for states, before, shift in zip(self._parts, given, shifts or [0.0] * len(given), strict=True):
            for state in states[before:]:
                state[0][:] += shift * np.float32(turbo_step.LOG2_E)

    def _pack(self, keys: KeyCodec, values: ValueCodec, parts: Sequence[tuple[Pages, int, int]]) -> None:
        pair = turbo_step.fusable(keys, values)
        if pair is not None:
            if any(end > first for _, end, first in parts):
                made = turbo_step.attend_batch(
                    self._backend, *pair, self._queries, self._scale, parts, self._threads
                )
                for states, state in zip(self._parts, made, strict=True):
                    if len(state[0]):
                        states.append(state)
            return
        per_run = [turbo_step.CHUNK_PAGES * pages.layout.page_tokens for pages, _, _ in parts]
        longest = max(
            (min(end, most) for (_, end, first), most in zip(parts, per_run) if end > first), default=0
        )
        score_bytes = self._queries.itemsize * self._queries.shape[1] * longest
        self._workspace = max(self._workspace, 2 * score_bytes)  # logits and weights
        units = []
        for states, query, part in zip(self._parts, self._queries, parts, strict=True):
            if part[1] > part[2]:
                state = empty_states(1, *query.shape)
                states.append(state)
                units.append(
                    partial(attend_unfused, self._backend, keys, values, query, self._scale, *part, state)
                )
        run_units(units, self._threads)

    @property
    def nbytes(self) -> int:
        """Bytes of the states and of the workspaces that are alive at once."""
        states = sum(a.nbytes for part in self._parts for state in part for a in state)
        return self._workspace * min(self._threads, len(self._queries)) + states

    def merged(self, sink_logits: F32 | None = None) -> F32:
        """The attention outputs, shaped like the queries; zeros for a sequence whose parts hold no token.

        sink_logits (n_query_heads,): see Mask.
        """
        sink = np.zeros((0, self._queries.shape[1]), np.float32)
        if sink_logits is not None:
            sink = sink_logits[None] * np.float32(turbo_step.LOG2_E)
        out = np.zeros_like(self._queries)
        units = []
        for y, parts in zip(out, self._parts):
            if parts:
                peaks, totals, outs = (np.concatenate(arrays) for arrays in zip(*parts))
                call = partial(self._backend.call, "merge_states", sink=sink, y=y)
                units.append(partial(call, peaks=peaks, totals=totals, outs=outs))
        run_units(units, self._threads if len(units) > 1 else 1)
        return out
