"""Pages come from the pool and go back to it, and runs repeat bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

from tq_core.cache.pool import PagePool
from tq_core.errors import PageError
from tq_core.tests.cache.worlds import ARMS, make, tokens


def pools_are_consistent(cache: Any) -> bool:
    """in_use + free = capacity, every table entry is a distinct page in use, and pages in use are in a table."""
    for store in cache.stores.values():
        pool = store.pool
        held = [int(page) for table in store.tables for page in table]
        free = list(pool.free)
        if sorted(held + free) != list(range(pool.capacity)) or pool.in_use != len(held):
            return False
    return True


@pytest.mark.parametrize("name", ARMS)
def test_reset_reuses_pages_and_repeats_bit_for_bit(name: str) -> None:
    q, k, v = tokens(75)
    cache, fresh = make(name, window=6, sinks=2), make(name, window=6, sinks=2)
    first = cache.attend(0, q, k, v)
    cache.append(1, *tokens(77, seed=5)[1:])
    assert pools_are_consistent(cache)
    capacity = {n: s.pool.capacity for n, s in cache.stores.items()}
    cache.reset()
    assert (cache.length, cache.ledger().tokens_compressed) == (0, 0)
    assert all(s.pool.in_use == 0 for s in cache.stores.values())
    assert cache.ledger().total == sum(cache.buffers().values())
    assert cache.scores(0, q[0]).shape == (6, 0)
    again = cache.attend(0, q, k, v)
    assert first.tobytes() == again.tobytes() == fresh.attend(0, q, k, v).tobytes()
    assert {n: s.pool.capacity for n, s in cache.stores.items()} == capacity
    assert pools_are_consistent(cache)
    for mine, theirs in zip(cache.decode(0), fresh.decode(0)):
        assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("name", ARMS)
def test_the_window_gives_its_pages_back(name: str) -> None:
    """However long the sequence, the recent store stays at window + flush + one page of slack."""
    cache = make(name, window=40)
    _, k, v = tokens(300)
    cache.append(0, k, v)
    if name != "fp16":
        assert cache.stores["recent"].pool.high_water <= -(-(40 + cache.arm.flush_tokens + 31) // 32)
    assert cache.stores["recent"].pool.in_use == len(cache.stores["recent"].tables[0])
    assert pools_are_consistent(cache)


def test_pool_grows_keeps_contents_and_reuses() -> None:
    pool = PagePool(page_bytes=64, reserve=1)
    a = pool.allocate()
    pool.page(a)[:] = 7
    b = pool.allocate()  # grows
    assert (pool.capacity, pool.in_use, pool.growth_events) == (2, 2, 1)
    assert (pool.page(a) == 7).all()
    assert not pool.page(b).any()
    pool.release(a)
    assert pool.in_use == 1
    assert pool.allocate() == a
    assert not pool.page(a).any()  # an old tenant's bytes are gone
    pool.allocate()
    assert (pool.capacity, pool.high_water) == (4, 3)
    assert pool.buffer.ctypes.data % 64 == 0


@pytest.mark.parametrize("page", [-1, 2, 0])
def test_pool_refuses_to_release_what_is_not_in_use(page: int) -> None:
    pool = PagePool(page_bytes=64, reserve=2)
    assert pool.allocate() != 1  # page 0 is handed out first, 1 stays free
    pool.release(0)
    with pytest.raises(PageError, match="^page: expected a page in use"):
        pool.release(page)
    assert pool.in_use == 0
