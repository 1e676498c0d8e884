"""A whole document under an arm at once: what a paged cache would read, in a few matrix products per layer.

A cache reads token by token. Here a layer's tokens are encoded into pages of the same codecs, decoded once, and every
query reads float16 rows inside sinks and recent window, decoded rows between them. That is the paged cache's result up
to float32 rounding, up to the 16 bits of its integer queries, and up to what a codec's tag ``read_tolerance`` admits
(scores by rounded tables), hundreds of times sooner. It decodes the history, so it says nothing of memory or speed.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.codecs.arms import Arm
from tq_core.codecs.base import Pages
from tq_core.codecs.calibration import check_model
from tq_core.errors import ValueRangeError, check
from tq_core.kernels.backend import Backend, get_backend
from tq_core.kernels.layout import PageLayout
from tq_core.model.exact_cache import check_attend_arguments
from tq_core.model.layers import softmax_rows
from tq_core.shapes import ModelShape

F32 = npt.NDArray[np.float32]


def as_half(x: F32) -> F32:
    """float32 values of the nearest float16 numbers: what window and sinks keep, and what codecs are given."""
    return x.astype(np.float16).astype(np.float32)


class CodedRows:
    """The packed tokens of one layer and one side: pages that grow, and the decoded rows."""

    def __init__(self, codec: Any, shape: ModelShape, layer: int, base: int, backend: Backend) -> None:
        self._codec, self._backend = codec, backend
        self._layout = PageLayout(shape.n_kv_heads, codec.page_tokens, codec.streams(shape.head_dim))
        self._where = (layer, base)
        self._pool = np.zeros(0, np.uint8)
        self.rows = np.zeros((0, shape.n_kv_heads, shape.head_dim), np.float32)

    def extend(self, x: F32) -> None:
        """Encode more tokens (n_tokens, n_kv_heads, head_dim), whole flush groups, and decode their pages."""
        if len(x) == 0:
            return
        first, per = len(self.rows), self._layout.page_tokens
        n_pages = -(-(first + len(x)) // per)
        grown = np.zeros(n_pages * self._layout.page_bytes, np.uint8)
        grown[: self._pool.size] = self._pool
        self._pool = grown
        pages = Pages(grown, np.arange(n_pages, dtype=np.uint32), self._layout, *self._where)
        self._codec.append(self._backend, pages, first, np.ascontiguousarray(x))
        kept = first // per
        run = Pages(grown, pages.table[kept:], self._layout, self._where[0], self._where[1] + kept * per)
        fresh = self._codec.decode(run, first + len(x) - kept * per, x.shape[2])
        self.rows = np.concatenate([self.rows[: kept * per], fresh])


@dataclass
class _Layer:
    keys: F32
    values: F32
    coded_keys: CodedRows
    coded_values: CodedRows
    length: int = 0
    packed: int = 0


class SimulatedCache:
    """Answers ``attend`` as ``PagedCache`` under the same arm does; see the module's text for what differs.

    flush_tokens: how many tokens leave the window together, a multiple of the arm's own (the default). In a comparison
    it is the same for all, so that no arm keeps more of them in float16. Raises ValueRangeError for another number.
    """

    def __init__(
        self, shape: ModelShape, arm: Arm, backend: Backend | None = None, flush_tokens: int | None = None
    ) -> None:
        self.shape, self.arm = shape, arm
        self.flush_tokens = arm.flush_tokens if flush_tokens is None else flush_tokens
        whole = self.flush_tokens >= 1 and self.flush_tokens % arm.flush_tokens == 0
        check(
            whole,
            "flush_tokens",
            f"a multiple of the arm's {arm.flush_tokens}",
            self.flush_tokens,
            ValueRangeError,
        )
        for codec in (arm.key_codec, arm.value_codec):
            codec.check(shape.head_dim)
            check_model(codec, shape)
        self._backend = backend or get_backend()
        self._scale = np.float32(shape.head_dim**-0.5)
        self._layers = [self._empty(layer) for layer in range(shape.n_layers)]

    def _empty(self, layer: int) -> _Layer:
        none = np.zeros((0, self.shape.n_kv_heads, self.shape.head_dim), np.float32)
        keys, values = (
            CodedRows(codec, self.shape, layer, self.arm.sinks, self._backend)
            for codec in (self.arm.key_codec, self.arm.value_codec)
        )
        return _Layer(none, none, keys, values)

    def fork(self) -> SimulatedCache:
        """A second cache with the same tokens; either grows without the other."""
        other = copy.copy(self)
        other._layers = [
            replace(s, coded_keys=copy.copy(s.coded_keys), coded_values=copy.copy(s.coded_values))
            for s in self._layers
        ]
        return other

    @property
    def length(self) -> int:
        """Tokens that every layer holds."""
        return min(state.length for state in self._layers)

    def packed(self, n_tokens: npt.NDArray[np.int64] | int) -> npt.NDArray[np.int64]:
        """Tokens that lie in packed pages once ``n_tokens`` have been appended."""
        n = np.asarray(n_tokens, np.int64)
        if self.arm.window is None:
            return np.zeros_like(n)
        return np.maximum(n - self.arm.sinks - self.arm.window, 0) // self.flush_tokens * self.flush_tokens

    def coded(self, layer: int) -> tuple[F32, F32]:
        """Keys and values of one layer's packed tokens as they are read, (n_tokens, n_kv_heads, head_dim)."""
        state = self._layers[layer]
        return state.coded_keys.rows, state.coded_values.rows

    def attend(
        self, layer: int, queries: F32, keys: F32, values: F32, sliding_window: int | None = None
    ) -> F32:
        """Append the tokens, then let each query attend to everything up to and including its own.

        Shapes as PagedCache.attend: float32 (n_tokens, heads, head_dim) after RoPE. Raises its errors.
        """
        n = check_attend_arguments(self.shape, layer, queries, keys, values)
        if n == 0:
            return np.empty_like(queries)
        state = self._layers[layer]
        state.keys = np.concatenate([state.keys, as_half(keys)])
        state.values = np.concatenate([state.values, as_half(values)])
        start, end = state.length, state.length + n
        state.length = end
        packed = int(self.packed(end))
        span = slice(self.arm.sinks + state.packed, self.arm.sinks + packed)
        state.coded_keys.extend(state.keys[span])
        state.coded_values.extend(state.values[span])
        state.packed = packed
        return self._read(state, queries, start, sliding_window)

    def _read(self, state: _Layer, queries: F32, start: int, sliding_window: int | None) -> F32:
        end, sinks, group = state.length, self.arm.sinks, self.shape.group_size_heads
        n = end - start
        own = np.arange(start, end)
        position = np.arange(end)
        hidden = position > own[:, None]
        if sliding_window is not None:
            hidden |= position <= own[:, None] - sliding_window
        coded = (position >= sinks) & (position < sinks + self.packed(own + 1)[:, None])  # (n, end)
        span = slice(sinks, sinks + state.packed)
        out = np.empty_like(queries)
        for head in range(self.shape.n_kv_heads):
            heads = slice(head * group, (head + 1) * group)
            rows = (queries[:, heads] * self._scale).transpose(1, 0, 2).reshape(group * n, -1)
            scores = (rows @ state.keys[:, head].T).reshape(group, n, end)
            if state.packed:
                read = (rows @ state.coded_keys.rows[:, head].T).reshape(group, n, -1)
                np.copyto(scores[:, :, span], read, where=coded[:, span])
            scores[:, hidden] = -np.inf
            weights = softmax_rows(scores)
            recent = np.where(coded, np.float32(0), weights).reshape(group * n, end)
            sums = recent @ state.values[:, head]
            if state.packed:
                old = np.where(coded, weights, np.float32(0))[:, :, span].reshape(group * n, -1)
                sums += old @ state.coded_values.rows[:, head]
            out[:, heads] = sums.reshape(group, n, -1).transpose(1, 0, 2)
        return out
