"""Sliding windows: the reference cache against plain attention, and the paged cache against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import ValueRangeError
from tq_core.model.exact_cache import ExactCache
from tq_core.tests.cache.worlds import SHAPE, half, make, tokens

N = 155  # with 3 sinks and a window of 9: a full page, a begun one, and recent tokens


def seen_attention(window: int | None) -> np.ndarray:
    """Every token's attention in float64, over itself and the newest tokens before it."""
    queries, keys, values = (x.astype(np.float64) for x in tokens(N))
    ages = np.arange(N)[:, None] - np.arange(N)
    seen = (ages >= 0) & (ages < (window or N))
    output = np.empty_like(queries)
    for head in range(SHAPE.n_query_heads):
        kv_head = head // SHAPE.group_size_heads
        scores = queries[:, head] @ keys[:, kv_head].T / np.sqrt(SHAPE.head_dim)
        weights = np.exp(np.where(seen, scores, -np.inf))
        output[:, head] = weights / weights.sum(axis=1, keepdims=True) @ values[:, kv_head]
    return output


@pytest.mark.parametrize("window", [1, 2, 40, N - 1, N, N + 1, 4000, None])
@pytest.mark.parametrize("pieces", [[N], [1] * N, [3, 1, 100, 51]])
def test_the_reference_sees_the_newest_tokens(pieces: list[int], window: int | None) -> None:
    queries, keys, values = tokens(N)
    cache, start, outputs = ExactCache(SHAPE), 0, []
    for size in pieces:
        part = slice(start, start + size)
        outputs.append(cache.attend(1, queries[part], keys[part], values[part], sliding_window=window))
        start += size
    np.testing.assert_allclose(np.concatenate(outputs), seen_attention(window), atol=5e-6)
    assert len(cache.decode(1)[0]) == N  # nothing is forgotten


@pytest.mark.parametrize("window", [1, 3, 5, 9, 10, 64, 152, N - 1, N, N + 1])
@pytest.mark.parametrize("name", ["fp16", "paged-halves"])
def test_the_paged_cache_gives_what_the_reference_gives(name: str, window: int) -> None:
    # Sliding windows shorter than the float16 window (9) and longer; sinks (3) outside, at the edge and inside.
    queries, keys, values = tokens(N)
    keys, values = half(keys), half(values)
    want = ExactCache(SHAPE).attend(0, queries, keys, values, sliding_window=window)
    cache = make(name, window=9, sinks=3)
    got = cache.attend(0, queries, keys, values, sliding_window=window)
    np.testing.assert_allclose(got, want, atol=2e-5)
    if window < N - 3:
        unmasked = make(name, window=9, sinks=3).attend(0, queries, keys, values)
        assert np.abs(unmasked[-1] - want[-1]).max() > 1e-3


@pytest.mark.parametrize("name", ["structured-turbo", "kivi-control"])
def test_a_sliding_layer_does_not_attend_to_sinks(name: str) -> None:
    queries, keys, values = tokens(N)
    loud = keys.copy()
    loud[:3] *= 100  # whoever sees these sinks attends to little else
    outputs = []
    for sink_keys in (keys, loud):
        cache = make(name, window=9, sinks=3)
        outputs.append(cache.attend(0, queries, sink_keys, values, sliding_window=60)[100:])
    assert outputs[0].tobytes() == outputs[1].tobytes()


@pytest.mark.parametrize("window", [0, -1, 2.5, True])
def test_a_window_that_is_no_count_is_refused(window: object) -> None:
    cache = ExactCache(SHAPE)
    with pytest.raises(ValueRangeError, match="^sliding_window"):
        cache.attend(0, *tokens(3), sliding_window=window)  # type: ignore[arg-type]
    assert len(cache.decode(0)[0]) == 0
