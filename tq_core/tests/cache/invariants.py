"""What must hold of caches that share pools, and what a cache holds, as bytes to compare."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from tq_core.cache.page import read_header
from tq_core.cache.paged_cache import PagedCache


def image(cache: PagedCache) -> tuple[Any, ...]:
    """Per store and layer: slots, positions, and every byte of the live pages but rows that left the window."""
    out: list[Any] = [cache.identity]
    for name, store in cache.stores.items():
        for state in store.layers:
            pages = [store.pool.page(int(page)).copy() for page in state.table.view()]
            if name == "recent" and pages and state.first:  # what the first page still holds of older tokens
                tokens = store.layout.page_tokens
                for head in range(store.layout.n_kv_heads):
                    for stream in store.layout.offsets:
                        view = store.layout.view(pages[0], 0, head, stream)
                        view[: view.size * state.first // tokens] = 0
            numbers = (name, state.table.head, state.first, state.end, state.position)
            out.append((numbers, [page.tobytes() for page in pages]))
    return tuple(out)


def difference(a: PagedCache, b: PagedCache) -> str:
    """Where the images of two caches first differ, identities apart; empty when they do not."""
    for x, y in zip(image(a)[1:], image(b)[1:], strict=True):
        if x != y:
            return f"bytes of {x[0]}" if x[0] == y[0] else f"{x[0]} and {y[0]}"
    return ""


def check_consistent(*caches: PagedCache) -> None:
    """References are what the tables say, pages in use and free are all pages, headers and ledger are true."""
    for i in range(3):
        for pool in {id(c.store_list[i].pool): c.store_list[i].pool for c in caches}.values():
            sharers = [c.store_list[i] for c in caches if c.store_list[i].pool is pool]
            held = Counter(int(page) for store in sharers for page in store.held())
            assert [held[page] for page in range(pool.capacity)] == pool.references.tolist()
            free = sorted(pool.free)
            assert free == [page for page in range(pool.capacity) if held[page] == 0]
            assert len(free) + pool.in_use == pool.capacity
            assert pool.in_use == len(held)
    for cache in caches:
        _check_headers(cache)
        assert cache.ledger().total == sum(cache.buffers().values())
        assert not cache.steps
        assert all(not state.marks for store in cache.store_list for state in store.layers)


def _check_headers(cache: PagedCache) -> None:
    for store in cache.store_list:
        per = store.layout.page_tokens
        for layer, state in enumerate(store.layers):
            assert 0 <= state.first <= state.end <= len(state.table) * per + state.first
            for i, page in enumerate(state.table.view()):
                header = read_header(store.pool.page(int(page)))
                assert (header.layer, header.index) == (layer, state.table.head + i)
                assert header.used == min(per, state.end - i * per)
                assert header.first_position == state.position + i * per


def answers(cache: PagedCache, queries: np.ndarray) -> bytes:
    """Bits of the scores, then of attention after one more token, of every layer (this appends)."""
    out = []
    d, heads = cache.shape.head_dim, cache.shape.n_kv_heads
    row = np.ones((1, heads, d), np.float32)
    for layer in range(cache.shape.n_layers):
        out.append(cache.scores(layer, queries).tobytes())
        out.append(cache.attend(layer, queries[None], row, row).tobytes())
    return b"".join(out)
