"""Taking tokens back at every edge: bit for bit a cache that never saw them, or packed as they were, as documented."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.errors import CacheStateError, ValueRangeError
from tq_core.shapes import ModelShape
from tq_core.tests.cache.invariants import answers, check_consistent, difference, image
from tq_core.tests.cache.worlds import ARMS, half, make, tokens

SHAPE = ModelShape(n_layers=2, n_query_heads=2, n_kv_heads=1, head_dim=16)
WHOLE = tokens(400, SHAPE, seed=4)


def fill(cache: PagedCache, start: int, end: int) -> PagedCache:
    """Tokens start .. end - 1 of one fixed sequence, each layer its own order of heads."""
    _, k, v = WHOLE
    for layer in range(cache.shape.n_layers):
        turn = np.float32(1 - 2 * layer)
        cache.append(layer, turn * k[start:end], v[start:end])
    return cache


def filled(name: str, n: int, **options: Any) -> PagedCache:
    return fill(make(name, SHAPE, **options), 0, n)


def same(a: PagedCache, b: PagedCache) -> None:
    assert difference(a, b) == ""
    assert answers(a, WHOLE[0][0]) == answers(b, WHOLE[0][0])


@pytest.mark.parametrize("sinks, window", [(0, 0), (3, 5), (0, 40), (33, 1)])
@pytest.mark.parametrize(
    "name", ["fp16", pytest.param("structured-turbo", marks=pytest.mark.slow), "kivi-control", "paged-halves"]
)
def test_under_a_checkpoint_every_length_is_exact(name: str, sinks: int, window: int) -> None:
    options = {"window": window, "sinks": sinks}
    for n, more in ((0, 70), (31, 150), (70, 1), (170, 130)):
        fresh: dict[int, PagedCache] = {}
        for back in {0, 1, more // 2, more}:
            cache = filled(name, n, **options)
            opened = cache.checkpoint()
            fill(cache, n, n + more)
            check_consistent(cache)
            kept = n + more - back
            opened.commit(kept)
            check_consistent(cache)
            fresh[kept] = filled(name, kept, **options)
            same(cache, fresh[kept])
            check_consistent(cache)


@pytest.mark.parametrize("name", ARMS)
def test_rollback_is_exact_and_attention_inside_is_as_without(name: str) -> None:
    q, k, v = WHOLE
    cache, plain = (filled(name, 150, window=20, sinks=2) for _ in range(2))
    before = image(cache)
    recent = cache.ledger().recent
    opened = cache.checkpoint()
    inside = [c.attend(0, q[150:260], k[150:260], v[150:260]).tobytes() for c in (cache, plain)]
    assert inside[0] == inside[1]
    assert opened.is_open
    if name != "fp16":
        assert cache.ledger().recent >= recent + 3 * cache.stores["recent"].layout.page_bytes  # the kept rows
        assert cache.ledger().recent > plain.ledger().recent
    check_consistent(cache)
    opened.rollback()
    assert image(cache) == before
    assert not opened.is_open
    check_consistent(cache)
    assert cache.ledger().recent == recent
    for call in (opened.commit, opened.rollback):
        with pytest.raises(
            CacheStateError, match="^checkpoint: expected an open one, got one that has ended"
        ):
            call()


@pytest.mark.parametrize("n, back", [(60, 1), (60, 20), (129, 2), (167, 3), (40, 40), (5, 2)])
@pytest.mark.parametrize("name", [*ARMS, "paged-halves"])
def test_without_a_checkpoint_it_is_exact_while_no_token_left_the_window(
    name: str, n: int, back: int
) -> None:
    """Window 64 and fewer tokens than that, or none that left between the two lengths."""
    options = {"window": 64 if n < 100 else 128, "sinks": 1}
    cache = filled(name, n, **options)
    cache.truncate(n - back)
    check_consistent(cache)
    same(cache, filled(name, n - back, **options))


@pytest.mark.parametrize("back", [1, 30, 33, 64, 65, 97, 140, 190, 229, 230])
@pytest.mark.parametrize(
    "name", [pytest.param("structured-turbo", marks=pytest.mark.slow), "kivi-control", "paged-halves"]
)
def test_rows_that_are_gone_stay_packed(name: str, back: int) -> None:
    """The window is shorter; every kept token reads as before; when it is full again, bytes are as without."""
    n, options = 230, {"window": 40, "sinks": 2}
    cache, plain = (filled(name, n, **options) for _ in range(2))
    old = cache.decode(1)
    cache.truncate(n - back)
    check_consistent(cache)
    assert cache.length == cache.live_tokens == n - back
    packed, flush = cache.stores["packed"].count(1), cache.arm.flush_tokens
    assert packed % flush == 0
    for was, now, given in zip(old, cache.decode(1), (-WHOLE[1], WHOLE[2])):
        for token, row in enumerate(
            now
        ):  # packed as it was, or back in float16, exact or as its codes decode
            as_given = np.array_equal(row, half(given[token]))
            assert as_given or np.array_equal(row, was[token]) or np.array_equal(row, half(was[token])), token
    fill(cache, n - back, n)
    check_consistent(cache)
    reopened = name == "kivi-control" and n - back > 2 and (n - back - 2) % 32 and n - back - 2 < 160
    if not reopened:
        same(cache, plain)
    else:  # one group was encoded a second time, from what its codes decoded to
        assert cache.stores["packed"].count(1) == plain.stores["packed"].count(1)
        again, want = cache.decode(1)[0], plain.decode(1)[0]
        wrong = ~np.isclose(again, want).all(axis=(1, 2))
        group = 2 + (n - back - 2) // 32 * 32
        assert set(np.flatnonzero(wrong)) <= set(range(group, group + 32))
        assert float(((again - want) ** 2).sum() / (want**2).sum()) < 0.05


@pytest.mark.parametrize("name", ARMS)
def test_a_cut_into_the_sinks_and_to_nothing(name: str) -> None:
    for n, length in ((200, 5), (200, 4), (200, 0), (3, 1)):
        cache = filled(name, n, window=3, sinks=5)
        cache.truncate(length)
        check_consistent(cache)
        same(cache, filled(name, length, window=3, sinks=5))


def test_layers_of_different_lengths() -> None:
    """Longer layers come down to the length; a checkpoint brings each back to its own."""
    _, k, v = WHOLE
    cache = filled("structured-turbo", 50, window=4)
    cache.append(1, -k[50:60], v[50:60])
    before = image(cache)
    opened = cache.checkpoint()
    fill(cache, 60, 90)
    opened.rollback()
    assert image(cache) == before
    cache.truncate(50)
    same(cache, filled("structured-turbo", 50, window=4))


@pytest.mark.parametrize("length", [-1, 51, 2.0, None, True, "3"])
def test_a_bad_length_is_refused(length: Any) -> None:
    cache = filled("kivi-control", 50, window=4)
    before = image(cache)
    with pytest.raises(ValueRangeError, match=r"^length: expected 0\.\.50, got "):
        cache.truncate(length)
    assert image(cache) == before


def test_nothing_before_a_checkpoint_is_taken_back() -> None:
    cache = filled("structured-turbo", 50, window=4)
    opened = cache.checkpoint()
    fill(cache, 50, 60)
    before = image(cache)
    with pytest.raises(CacheStateError, match="^length: expected 50 or more, the checkpoint, got 49"):
        opened.commit(49)
    with pytest.raises(CacheStateError, match="^checkpoint: expected no open checkpoint"):
        cache.checkpoint()
    assert image(cache) == before
    cache.reset()
    assert not opened.is_open
    check_consistent(cache)
