"""The reference cache against attention written out for one query at a time in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import DTypeError, ShapeError, ValueRangeError
from tq_core.model.exact_cache import ExactCache
from tq_core.shapes import ModelShape

SHAPE = ModelShape(n_layers=2, n_query_heads=6, n_kv_heads=2, head_dim=16)
Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


def random_tokens(n_tokens: int, seed: int = 0) -> Triple:
    random = np.random.default_rng(seed)
    heads = (SHAPE.n_query_heads, SHAPE.n_kv_heads, SHAPE.n_kv_heads)
    queries, keys, values = (
        random.standard_normal((n_tokens, n_heads, SHAPE.head_dim)).astype(np.float32) for n_heads in heads
    )
    return queries, keys, values


def attention(queries: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Causal grouped-query attention, token by token and head by head."""
    output = np.empty(queries.shape)
    for token in range(len(queries)):
        for head in range(SHAPE.n_query_heads):
            kv_head = head // SHAPE.group_size_heads
            scores = (
                keys[: token + 1, kv_head].astype(np.float64) @ queries[token, head] / SHAPE.head_dim**0.5
            )
            weights = np.exp(scores - scores.max())
            output[token, head] = weights / weights.sum() @ values[: token + 1, kv_head]
    return output


@pytest.mark.parametrize("pieces", [[40], [1] * 40, [3, 1, 20, 16], [39, 1]])
def test_any_split_gives_causal_attention(pieces: list[int]) -> None:
    queries, keys, values = random_tokens(40)
    cache, start, outputs = ExactCache(SHAPE), 0, []
    for size in pieces:
        part = slice(start, start + size)
        outputs.append(cache.attend(0, queries[part], keys[part], values[part]))
        start += size
    np.testing.assert_allclose(np.concatenate(outputs), attention(queries, keys, values), atol=2e-6)


def test_a_later_token_does_not_change_an_earlier_output() -> None:
    queries, keys, values = random_tokens(10)
    first = ExactCache(SHAPE).attend(0, queries, keys, values)
    keys[9], values[9] = 7.0, -7.0
    second = ExactCache(SHAPE).attend(0, queries, keys, values)
    np.testing.assert_array_equal(first[:9], second[:9])
    assert (first[9] != second[9]).any()


def test_length_counts_what_all_layers_hold() -> None:
    cache = ExactCache(SHAPE)
    cache.attend(0, *random_tokens(3))
    assert cache.length == 0
    cache.attend(1, *random_tokens(3))
    assert cache.length == 3
    cache.reset()
    assert cache.length == 0 and cache.decode(0)[0].shape == (0, 2, 16)


def test_decode_returns_what_went_in_across_growth() -> None:
    cache = ExactCache(SHAPE)
    parts = [random_tokens(size, seed) for seed, size in enumerate((60, 1, 1, 1, 1, 1, 200))]
    for part in parts:
        cache.attend(1, *part)
    keys, values = cache.decode(1)
    np.testing.assert_array_equal(keys, np.concatenate([part[1] for part in parts]))
    np.testing.assert_array_equal(values, np.concatenate([part[2] for part in parts]))


def test_no_tokens_is_no_change() -> None:
    cache = ExactCache(SHAPE)
    assert cache.attend(0, *random_tokens(0)).shape == (0, 6, 16)


@pytest.mark.parametrize("name", ["queries", "keys", "values"])
def test_bad_arguments_are_named_and_change_nothing(name: str) -> None:
    cache = ExactCache(SHAPE)
    cache.attend(0, *random_tokens(2))
    good = dict(zip(("queries", "keys", "values"), random_tokens(3, 1), strict=True))
    with pytest.raises(ShapeError, match=r"queries|keys|values"):
        cache.attend(0, **good | {name: good[name][:, :, :8]})
    with pytest.raises(DTypeError, match=name):
        cache.attend(0, **good | {name: good[name].astype(np.float64)})
    spoiled = good[name].copy()
    spoiled[1, 0, 3] = np.nan
    with pytest.raises(ValueRangeError, match=name):
        cache.attend(0, **good | {name: spoiled})
    with pytest.raises(ValueRangeError, match="layer"):
        cache.attend(2, **good)
    assert len(cache.decode(0)[0]) == 2
