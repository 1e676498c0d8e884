"""Forks share pages until one of them writes; beams are permuted in place; closing gives everything back."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from tq_core.cache.beams import bytes_together, reorder
from tq_core.cache.paged_cache import PagedCache
from tq_core.errors import CacheStateError, DTypeError, ShapeError, TqError, ValueRangeError
from tq_core.tests.cache.invariants import answers, check_consistent, difference, image
from tq_core.tests.cache.test_truncate import SHAPE, WHOLE, fill, filled
from tq_core.tests.cache.worlds import ARMS, make, tokens


@pytest.mark.parametrize("name", [*ARMS, "paged-halves"])
def test_a_fork_is_the_same_cache_until_either_writes(name: str) -> None:
    n, options = 170, {"window": 10, "sinks": 2}
    first = filled(name, n, **options)
    used = {key: store.pool.in_use for key, store in first.stores.items()}
    second = first.fork()
    assert {key: store.pool.in_use for key, store in second.stores.items()} == used
    check_consistent(first, second)
    assert difference(first, second) == ""
    fill(second, n, n + 60)
    check_consistent(first, second)
    assert difference(first, filled(name, n, **options)) == ""
    assert difference(second, filled(name, n + 60, **options)) == ""
    fill(first, n + 60, n + 63)  # other tokens
    check_consistent(first, second)
    assert difference(second, filled(name, n + 60, **options)) == ""
    assert answers(second, WHOLE[0][0]) == answers(filled(name, n + 60, **options), WHOLE[0][0])


def test_the_shared_prefix_is_stored_once() -> None:
    first = filled("structured-turbo", 400, window=0)
    forks = [first.fork() for _ in range(9)]
    packed = first.stores["packed"].pool
    assert packed.in_use == 2 * 4
    assert bytes_together([first, *forks]) < 1.2 * bytes_together([first])
    for i, cache in enumerate(forks):
        fill(cache, i, i + 1)
    assert packed.in_use == 2 * (4 + 9)  # only the last page of each layer, per fork
    check_consistent(first, *forks)


@pytest.mark.parametrize("name", ["structured-turbo", "kivi-control"])
def test_taking_back_and_sliding_in_one_fork_leaves_the_other(name: str) -> None:
    options = {"window": 5, "sinks": 1}
    first = filled(name, 390, **options)
    second, third = first.fork(), first.fork()
    before = image(first)
    second.truncate(200)
    third.slide(100)
    check_consistent(first, second, third)
    assert image(first) == before
    fill(second, 200, 240)
    fill(third, 390, 400)
    check_consistent(first, second, third)
    assert image(first) == before
    first.reset()
    check_consistent(first, second, third)
    alone = fill(filled(name, 390, **options), 0, 0)
    alone.slide(100)
    assert difference(third, fill(alone, 390, 400)) == ""


@pytest.mark.parametrize("name", ARMS)
def test_reorder(name: str) -> None:
    base = filled(name, 140, window=8)
    caches = [base, base.fork(), base.fork(), base.fork()]
    for i, cache in enumerate(caches):
        fill(cache, 140 + i, 150 + 2 * i)
    before = [image(cache) for cache in caches]
    kept = [id(cache) for cache in caches]
    reorder(caches, [2, 2, 0, np.int64(3)])
    assert [image(cache) for cache in caches] == [before[i] for i in (2, 2, 0, 3)]
    assert [id(cache) for cache in caches] == kept
    check_consistent(*caches)
    fill(caches[0], 200, 240)
    assert image(caches[1]) == before[2]
    check_consistent(*caches)
    reorder([], [])


@pytest.mark.parametrize(
    "beams, error",
    [([0], ShapeError), ([0, 1, 2], ShapeError), ([0, 2], ValueRangeError), ([-1, 0], ValueRangeError),
     ([0, 1.0], ValueRangeError), ([True, 0], ValueRangeError)],
)  # fmt: skip
def test_beams_that_are_not_there(beams: list[Any], error: type[TqError]) -> None:
    first = filled("kivi-control", 40, window=2)
    caches = [first, first.fork()]
    before = [image(cache) for cache in caches]
    with pytest.raises(error, match="^beams: expected .*, got "):
        reorder(caches, beams)
    assert [image(cache) for cache in caches] == before


def test_caches_that_do_not_belong_together() -> None:
    first, other = filled("fp16", 4), filled("fp16", 4)
    for caches, error in (
        ([first, other], ValueRangeError),
        ([first, first], ValueRangeError),
        ([first, 1], DTypeError),
    ):
        with pytest.raises(error, match="^caches: expected .*, got "):
            reorder(caches, [1, 0])  # type: ignore[arg-type]
    closed = first.fork()
    closed.close()
    with pytest.raises(CacheStateError, match="^cache: expected an open cache, got a closed one"):
        reorder([first, closed], [1, 0])
    first.checkpoint()
    with pytest.raises(CacheStateError, match="^reorder: expected no open checkpoint"):
        reorder([first, first.fork()], [1, 0])


def test_a_closed_cache_refuses_every_call_and_its_pages_are_free() -> None:
    q, k, v = tokens(3, SHAPE)
    first = filled("structured-turbo", 50, window=2)
    second = first.fork()
    first.close()
    first.close()
    for call in (
        first.fork, first.reset, first.checkpoint, first.step, lambda: first.truncate(0), lambda: first.slide(1),
        lambda: first.append(0, k, v), lambda: first.attend(0, q, k, v), lambda: first.decode(0),
        lambda: first.scores(0, q[0]), lambda: first.switch_model("x"), lambda: first.require_model("x"),
    ):  # fmt: skip
        with pytest.raises(CacheStateError, match="^cache: expected an open cache, got a closed one"):
            call()
    check_consistent(second)
    assert difference(second, filled("structured-turbo", 50, window=2)) == ""
    second.close()
    assert [store.pool.in_use for store in second.store_list] == [0, 0, 0]


def test_a_fork_that_is_lost_gives_its_pages_back_before_the_pool_grows() -> None:
    first = filled("fp16", 64)
    fill(first.fork(), 64, 320)
    gc.collect()
    pool = first.stores["recent"].pool
    grown, free = pool.growth_events, len(pool.free)
    fill(first, 64, 64 + 16 * (free + 2))
    assert pool.growth_events == grown
    check_consistent(first)


def test_inside_a_step_only_growing_and_reading_are_allowed() -> None:
    cache: PagedCache = make("structured-turbo", SHAPE, window=2)
    q, k, v = tokens(9, SHAPE)
    with cache.step():
        cache.append(0, k, v)
        cache.scores(0, q[0])
        calls: tuple[Any, ...] = (
            cache.fork, cache.reset, cache.close, cache.checkpoint, lambda: cache.truncate(0), lambda: cache.slide(0),
            lambda: reorder([cache], [0]), lambda: cache.switch_model("x"),
        )  # fmt: skip
        for call in calls:
            with pytest.raises(CacheStateError, match="expected no open step, got a call inside one"):
                call()
        cache.append(1, k, v)
    assert cache.length == 9
    check_consistent(cache)
