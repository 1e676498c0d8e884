"""A layer's history put into an empty cache in one go, as a panel needs it at every move.

``PagedCache.append`` takes every token through the window, as in use, which for a panel's move is ten times too slow. Here
every token goes at once to where it ends: sinks, packed pages (from its float16 form, as when it leaves the window) or window. What is
then read from the cache is the same, bit for bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.cache.paged_cache import PagedCache
from tq_core.cache.planned import split_tokens
from tq_core.errors import CacheStateError, check

F32 = npt.NDArray[np.float32]


def prefill(cache: PagedCache, layer: int, keys: F32, values: F32) -> None:
    """Fill an empty layer with tokens (n_tokens, n_kv_heads, head_dim). Raises CacheStateError for a layer that holds some."""
    sinks, packed, recent = cache.store_list
    held = sum(store.count(layer) for store in cache.store_list)
    check(held == 0, "cache", f"no token in layer {layer}", held, CacheStateError)
    first, coded, _ = split_tokens(cache.arm, len(keys))
    # Tokens that have left the window still take the first slots of its oldest page: sums go page by page.
    before = coded % recent.layout.page_tokens
    spans = (0, first), (first, first + coded), (first + coded - before, len(keys))
    for store, (start, end) in zip((sinks, packed, recent), spans):
        k, v = (np.ascontiguousarray(x[start:end]) for x in (keys, values))
        if store is packed:
            k, v = (x.astype(np.float16).astype(np.float32) for x in (k, v))
        if start < end:
            store.append(layer, k, v, start)
    if before:
        recent.drop_oldest(layer, before)
