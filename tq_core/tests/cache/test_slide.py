"""Old pages retire, sinks stay, positions go on; and a cache knows whose tokens it holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.errors import CacheStateError, DTypeError, IdentityMismatch, ValueRangeError
from tq_core.tests.cache.invariants import check_consistent, difference, image
from tq_core.tests.cache.test_truncate import SHAPE, WHOLE, fill, filled
from tq_core.tests.cache.worlds import ARMS, exact_attention, half, make


@pytest.mark.parametrize("keep", [0, 5, 12, 13, 100, 200, 300, 379, 380, 1000])
@pytest.mark.parametrize("name", [*ARMS, "paged-halves"])
def test_what_stays(name: str, keep: int) -> None:
    """Sinks, at least ``keep`` tokens behind them, and less than a packed page more; the next token's position stands."""
    sinks, n = 3, 383
    cache = filled(name, n, window=12, sinks=sinks)
    old = cache.decode(1)
    dropped = cache.slide(keep)
    check_consistent(cache)
    left = n - sinks - dropped
    assert min(keep, n - sinks) <= left < keep + (128 if name != "fp16" else 1) or dropped == 0
    assert (cache.length, cache.live_tokens, cache.ledger().n_tokens) == (n, sinks + left, sinks + left)
    for was, now in zip(old, cache.decode(1)):
        np.testing.assert_array_equal(now, np.concatenate([was[:sinks], was[n - left :]]))
    q, k, v = WHOLE
    out = cache.attend(1, q[n : n + 1], k[n : n + 1], v[n : n + 1])[0]
    np.testing.assert_allclose(out, exact_attention(SHAPE, q[n], *cache.decode(1)), atol=1e-4)
    cache.append(0, k[n : n + 1], v[n : n + 1])
    assert cache.length == n + 1
    check_consistent(cache)


@pytest.mark.parametrize("name", [pytest.param("structured-turbo", marks=pytest.mark.slow), "kivi-control"])
def test_a_long_life_in_a_bounded_cache(name: str) -> None:
    cache = make(name, SHAPE, window=16, sinks=4)
    totals: list[int] = []
    for start in range(0, 1600, 40):
        fill(cache, start % 360, start % 360 + 40)
        cache.slide(150)
        check_consistent(cache)
        totals.append(cache.ledger().total)
    assert cache.length == 1600
    assert len(set(totals[10:])) == 1
    assert all(store.pool.growth_events <= 4 for store in cache.store_list)
    np.testing.assert_array_equal(cache.decode(0)[0][:4], half(WHOLE[1][:4]))


@pytest.mark.parametrize("name", ["structured-turbo", "kivi-control"])
def test_taking_back_after_a_slide(name: str) -> None:
    """Down to the oldest token that is left, or to the sinks; nothing between."""
    cache = filled(name, 300, window=10, sinks=4)
    dropped = cache.slide(150)
    least = 4 + dropped
    assert dropped == 128
    before = image(cache)
    for length in (5, least - 1):
        with pytest.raises(
            ValueRangeError, match=rf"^length: expected 0\.\.4 or {least}\.\.300, got {length}$"
        ):
            cache.truncate(length)
    assert image(cache) == before
    cache.truncate(least + 3)
    check_consistent(cache)
    assert (cache.length, cache.live_tokens) == (least + 3, 7)
    cache.truncate(2)
    check_consistent(cache)
    assert difference(cache, filled(name, 2, window=10, sinks=4)) == ""


@pytest.mark.parametrize("keep", [-1, 1.5, None, True])
def test_a_bad_count_is_refused(keep: Any) -> None:
    cache = filled("structured-turbo", 50, window=4)
    before = image(cache)
    with pytest.raises(ValueRangeError, match="^keep_tokens: expected a count of tokens, 0 or more, got "):
        cache.slide(keep)
    cache.checkpoint()
    with pytest.raises(CacheStateError, match="^slide: expected no open checkpoint"):
        cache.slide(3)
    assert image(cache) == before


def test_another_model_or_adapter_forgets_or_is_refused() -> None:
    cache = make("structured-turbo", SHAPE, window=4)
    assert cache.identity is None
    assert cache.switch_model("model/adapter-1")
    fill(cache, 0, 50)
    assert not cache.switch_model("model/adapter-1")
    cache.require_model("model/adapter-1")
    before = image(cache)
    with pytest.raises(
        IdentityMismatch, match="^identity: expected 'model/adapter-1', got 'model/adapter-2'$"
    ):
        cache.require_model("model/adapter-2")
    with pytest.raises(DTypeError, match="^identity: expected a str, got 7"):
        cache.switch_model(7)  # type: ignore[arg-type]
    assert image(cache) == before
    assert cache.fork().identity == cache.identity
    assert cache.switch_model("model/adapter-2")
    assert (cache.length, cache.identity) == (0, "model/adapter-2")
    check_consistent(cache)
    assert difference(fill(cache, 0, 50), filled("structured-turbo", 50, window=4)) == ""
