"""A store as a saved cache has it: what a layer's pages are, and pages put into an empty store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tq_core.cache.block_table import BlockTable
from tq_core.cache.layer_pages import LayerPages
from tq_core.cache.page import write_used
from tq_core.cache.store import PageStore
from tq_core.errors import ValueRangeError, check

U32 = npt.NDArray[np.uint32]
State = tuple[int, int, int, int, int]  # first, end, dropped pages, position of slot 0, valid


def export_layer(store: PageStore, layer: int) -> tuple[U32, State]:
    """What a saved cache needs of a layer: its pages, and its state.

    valid: position of the first slot of these pages that was written, live or not.
    """
    state = store.layers[layer]
    valid = max(state.valid, state.position)
    return state.table.view().copy(), (state.first, state.end, state.table.head, state.position, valid)


def adopt_pages(
    store: PageStore, pages: npt.NDArray[np.uint8], tables: Sequence[U32], states: Sequence[State]
) -> None:
    """Take copies of verified pages (n_pages, page_bytes) into an empty store; the inverse of ``export_layer``.

    Raises ValueRangeError when the store holds pages.
    """
    pool, per = store.pool, store.layout.page_tokens
    check(pool.in_use == 0, "store", "an empty one", f"{pool.in_use} pages", ValueRangeError)
    pool.reserve(len(pages))
    for layer, (entries, (first, end, dropped, position, valid)) in enumerate(zip(tables, states)):
        table = BlockTable(dropped)
        for i, theirs in enumerate(entries):
            table.make_room(table.head)
            mine = pool.allocate()
            pool.page(mine)[:] = pages[theirs]
            # A page that is not full is not sealed in memory.
            write_used(pool.page(mine), min(per, end - i * per))
            table.put(table.end, mine)
            table.end += 1
        store.layers[layer] = LayerPages(position, valid, first, end, table)
