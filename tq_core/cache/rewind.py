"""Taking tokens away at either end of one layer, across the edges between sinks, packed pages and window.

The layer is marked by an open step, which keeps the pages until it ends and puts everything back if it fails.
"""

from __future__ import annotations

import numpy as np

from tq_core.cache.store import PageStore
from tq_core.codecs.arms import Arm

Stores = tuple[PageStore, PageStore, PageStore]  # sinks, packed, recent


def end_position(arm: Arm, stores: Stores, layer: int) -> int:
    """Sequence position of the layer's next token: all tokens so far, those that slid away included."""
    sinks, recent = stores[0].count(layer), stores[2].layers[layer]
    return sinks if sinks < arm.sinks else recent.position + recent.end


def start_position(stores: Stores, layer: int) -> int:
    """Sequence position of the oldest live token behind the sinks."""
    _, packed, recent = (store.layers[layer] for store in stores)
    first = packed if packed.end else recent
    return first.position + first.first


def rewind_layer(arm: Arm, stores: Stores, layer: int, length: int) -> None:
    """Keep the tokens before position ``length``, which is at most arm.sinks or at least ``start_position``."""
    sinks, packed, recent = stores
    if length <= arm.sinks:
        packed.layers[layer].begin(packed.base, 0)
        recent.layers[layer].begin(recent.base, 0)
        if length < sinks.count(layer):
            _cut(sinks, layer, length)
        return
    start, rows_from = start_position(stores, layer), _oldest_row(recent, layer)
    if packed.count(layer) == 0:
        _cut_window(recent, layer, start, length)
        return
    flush, window = arm.flush_tokens, arm.window or 0
    whole = start + (length - start) // flush * flush
    never_packed = start + max(length - start - window, 0) // flush * flush
    readable = start - (start - rows_from) // flush * flush  # rounded up to a group's edge
    edge = min(max(never_packed, readable), whole)
    if edge >= rows_from:
        _cut_window(recent, layer, edge, length)
    else:
        _reopen_window(stores, layer, edge, length, rows_from)
    _cut(packed, layer, edge)


def _oldest_row(recent: PageStore, layer: int) -> int:
    """Position of the oldest token whose float16 row is still there, live or not."""
    state = recent.layers[layer]
    back = state.table.head - (recent.retained[layer] if recent.retained else state.table.head)
    return max(state.valid, state.position - back * recent.layout.page_tokens)


def _cut(store: PageStore, layer: int, length: int) -> None:
    """Let the store end before position ``length``."""
    state, per = store.layers[layer], store.layout.page_tokens
    end = length - state.position
    state.table.end = state.table.head - (-end // per)
    state.end = end
    if end % per:
        store.own_tail(layer)


def _cut_window(recent: PageStore, layer: int, start: int, length: int) -> None:
    """Let the window hold positions ``start`` .. ``length - 1``, whose rows are there."""
    state, per = recent.layers[layer], recent.layout.page_tokens
    back = -((start - state.position) // per)  # pages before the first live one; negative where that one goes
    state.table.head -= back
    state.position -= back * per
    state.first = start - state.position
    _cut(recent, layer, length)


def _reopen_window(stores: Stores, layer: int, start: int, length: int, rows_from: int) -> None:
    """A window of positions ``start`` .. ``length - 1``; those before ``rows_from`` as their codes decode."""
    _, packed, recent = stores
    state, coded = recent.layers[layer], packed.layers[layer]
    first, last = start - coded.position, min(length, rows_from) - coded.position
    rows = [x[first:last] for x in packed.oldest(layer, last)]
    if length > rows_from:
        held = recent.pages(layer)
        for i, codec in enumerate((recent.keys, recent.values)):
            slots = slice(rows_from - state.position, length - state.position)
            kept = codec.decode(held, slots.stop, rows[i].shape[-1])[slots]
            rows[i] = np.concatenate([rows[i], kept])
    per, base = recent.layout.page_tokens, recent.base
    page = (start - base) // per
    state.begin(base + page * per, page, start - base - page * per)
    keys, values = (np.ascontiguousarray(x) for x in rows)
    recent.append(layer, keys, values, start)


def slide_layer(stores: Stores, layer: int, keep_tokens: int) -> int:
    """Drop the oldest packed pages, then the oldest window rows, while ``keep_tokens`` tokens remain; tokens dropped.

    Packed tokens go by whole pages, or all of them where the window alone holds enough.
    """
    _, packed, recent = stores
    coded, per = packed.count(layer), packed.layout.page_tokens
    excess = coded + recent.count(layer) - keep_tokens
    if excess <= 0:
        return 0
    if excess < coded:
        packed.drop_oldest(layer, excess // per * per)
        return excess // per * per
    recent.drop_oldest(layer, excess - coded)
    state, window = packed.layers[layer], recent.layers[layer]
    window.valid = window.position + window.first
    state.begin(window.valid, state.table.end)
    return excess
