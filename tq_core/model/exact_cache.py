"""The reference cache: every key and value in float32, attention in numpy.

It answers the same calls as a compressed cache, which makes it the oracle in tests and the
"no compression" arm in comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tq_core.cache.attention import Mask
from tq_core.errors import DTypeError, ValueRangeError, check
from tq_core.model.layers import softmax_rows
from tq_core.shapes import ModelShape


def check_attend_arguments(
    shape: ModelShape, layer: int, queries: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> int:
    """Return n_tokens; ShapeError, DTypeError or ValueRangeError name the argument that is wrong."""
    ok = isinstance(layer, (int, np.integer)) and 0 <= layer < shape.n_layers
    check(ok, "layer", f"0..{shape.n_layers - 1}", layer, ValueRangeError)
    n_tokens = queries.shape[0] if queries.ndim else 0
    arguments = {"queries": (queries, shape.n_query_heads), "keys": (keys, shape.n_kv_heads)}
    arguments["values"] = (values, shape.n_kv_heads)
    for name, (array, n_heads) in arguments.items():
        expected = (n_tokens, n_heads, shape.head_dim)
        check(array.shape == expected, name, f"shape {expected}", array.shape)
        check(array.dtype == np.float32, name, "float32", array.dtype, DTypeError)
        check(bool(np.isfinite(array).all()), name, "finite values", "inf or nan", ValueRangeError)
    return n_tokens


def _hidden(start: int, n_tokens: int, sliding_window: int | None) -> tuple[int, np.ndarray | None]:
    """(oldest position that a query from ``start`` on sees, which of the newest columns each query must not see)."""
    low = 0 if sliding_window is None else max(0, start + 1 - sliding_window)
    if n_tokens == 1:
        return low, None
    # Query t may read positions up to start + t: without a window, only the newest n_tokens columns need a mask.
    columns = np.arange(start if sliding_window is None else low, start + n_tokens)
    ages = np.arange(start, start + n_tokens)[:, None] - columns
    return low, (ages < 0) if sliding_window is None else (ages < 0) | (ages >= sliding_window)


class ExactCache:
    """Keys and values of every layer, float32, in arrays (n_kv_heads, capacity, head_dim) that double."""

    def __init__(self, shape: ModelShape, reserve_tokens: int = 0) -> None:
        check(reserve_tokens >= 0, "reserve_tokens", "0 or more", reserve_tokens, ValueRangeError)
        self.shape = shape
        self._scale = np.float32(shape.head_dim**-0.5)
        self._reserve = max(reserve_tokens, 64)
        self.reset()

    def reset(self) -> None:
        """Forget every token; keep no memory."""
        empty = np.empty((self.shape.n_kv_heads, 0, self.shape.head_dim), np.float32)
        self._keys = [empty] * self.shape.n_layers
        self._values = [empty] * self.shape.n_layers
        self._lengths = [0] * self.shape.n_layers

    @property
    def length(self) -> int:
        """Tokens that every layer holds; it grows when the last layer has been given its share."""
        return min(self._lengths)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Left by an exception, nothing that was appended inside remains."""
        lengths = list(self._lengths)
        try:
            yield
        except BaseException:
            self._lengths = lengths
            raise

    def attend(
        self,
        layer: int,
        queries: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        *,
        sliding_window: int | None = None,
    ) -> np.ndarray:
        """Append the tokens to ``layer``; each query attends to all tokens up to and including its own.

        queries float32 (n_tokens, n_query_heads, head_dim), keys and values
        (n_tokens, n_kv_heads, head_dim), all after RoPE. Returns float32 of the shape of queries:
        softmax(q k^T / sqrt(head_dim)) v per head. sliding_window: as in Mask; what is hidden stays stored.
        Raises ShapeError, DTypeError or ValueRangeError before anything is appended.
        """
        n_tokens = check_attend_arguments(self.shape, layer, queries, keys, values)
        Mask(sliding_window=sliding_window).check(self.shape.n_query_heads)
        if n_tokens == 0:
            return np.empty_like(queries)
        start = self._lengths[layer]
        end = start + n_tokens
        self._grow(layer, end)
        self._keys[layer][:, start:end] = keys.transpose(1, 0, 2)
        self._values[layer][:, start:end] = values.transpose(1, 0, 2)
        self._lengths[layer] = end
        group = self.shape.group_size_heads
        low, hidden = _hidden(start, n_tokens, sliding_window)
        output = np.empty_like(queries)
        scaled = queries * self._scale
        for kv_head in range(self.shape.n_kv_heads):
            heads = slice(kv_head * group, (kv_head + 1) * group)
            rows = scaled[:, heads].transpose(1, 0, 2).reshape(group * n_tokens, -1)
            scores = (rows @ self._keys[layer][kv_head, low:end].T).reshape(group, n_tokens, end - low)
            if hidden is not None:
                scores[:, :, -hidden.shape[1] :][:, hidden] = -np.inf
            weights = softmax_rows(scores).reshape(group * n_tokens, end - low)
            sums = weights @ self._values[layer][kv_head, low:end]
            output[:, heads] = sums.reshape(group, n_tokens, -1).transpose(1, 0, 2)
        return output

    def decode(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        """Keys and values of ``layer``, copied, float32 (n_tokens, n_kv_heads, head_dim)."""
        check(
            0 <= layer < self.shape.n_layers, "layer", f"0..{self.shape.n_layers - 1}", layer, ValueRangeError
        )
        end = self._lengths[layer]
        keys, values = self._keys[layer][:, :end], self._values[layer][:, :end]
        return keys.transpose(1, 0, 2).copy(), values.transpose(1, 0, 2).copy()

    def _grow(self, layer: int, needed: int) -> None:
        capacity = self._keys[layer].shape[1]
        if needed <= capacity:
            return
        capacity = max(needed, 2 * capacity, self._reserve)
        for store in (self._keys, self._values):
            larger = np.empty((self.shape.n_kv_heads, capacity, self.shape.head_dim), np.float32)
            larger[:, : self._lengths[layer]] = store[layer][:, : self._lengths[layer]]
            store[layer] = larger
