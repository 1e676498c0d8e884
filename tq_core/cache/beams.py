"""Several caches over common pools: beams of a search, or a prompt that many answers share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tq_core.cache.lifecycle import Lifecycle
from tq_core.cache.paged_cache import PagedCache
from tq_core.errors import DTypeError, ShapeError, ValueRangeError, check


def reorder(caches: Sequence[Lifecycle], beams: Sequence[int]) -> None:
    """Let each cache i hold what cache ``beams[i]`` holds now, sharing its pages; in place, all or none.

    The caches are forks of each other. Raises DTypeError, ShapeError or ValueRangeError for lists that do not
    fit together or name a beam that is not there, CacheStateError for a cache that is closed or has a step or
    checkpoint open; then nothing has changed.
    """
    n = len(caches)
    for cache in caches:
        check(isinstance(cache, Lifecycle), "caches", "PagedCaches", repr(cache), DTypeError)
        cache.check_idle("reorder")
        common = all(a.pool is b.pool for a, b in zip(cache.store_list, caches[0].store_list))
        check(common, "caches", "forks of one cache", "caches with pools of their own", ValueRangeError)
    check(len({id(cache) for cache in caches}) == n, "caches", "distinct ones", "one twice", ValueRangeError)
    check(len(beams) == n, "beams", f"{n} indices", len(beams), ShapeError)
    for beam in beams:
        whole = isinstance(beam, (int, np.integer)) and not isinstance(beam, bool)
        check(whole and 0 <= beam < n, "beams", f"0..{n - 1}", repr(beam), ValueRangeError)
    changed = [(caches[i], caches[beam]) for i, beam in enumerate(beams) if i != beam]
    pairs = [pair for a, b in changed for pair in zip(a.store_list, b.store_list)]
    wanted = [[layer.copy() for layer in source.layers] for _, source in pairs]
    before = [store.layers for store, _ in pairs]
    pools = [store.pool for store in caches[0].store_list] if n else []
    try:
        for (store, _), layers in zip(pairs, wanted):
            store.layers = layers
        for pool in pools:
            pool.recount()
    except BaseException:
        for (store, _), layers in zip(pairs, before):
            store.layers = layers
        for pool in pools:
            pool.recount()
        raise


def bytes_together(caches: Sequence[PagedCache]) -> int:
    """Bytes of all buffers of these caches, common pools counted once; the ledger of a fork counts them whole."""
    pools = {id(s.pool): s.pool.nbytes for cache in caches for s in cache.store_list}
    tables = sum(s.table_bytes - s.pool.references.nbytes for cache in caches for s in cache.store_list)
    own = sum(cache.buffers()["scratch"] for cache in caches)
    fixed = max((cache.buffers()["fixed_tables"] for cache in caches), default=0)
    return sum(pools.values()) + tables + own + fixed
