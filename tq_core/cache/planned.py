"""The ledger of a cache that does not exist yet: every line from the shape, the arm and the number of tokens.

These formulas follow the page layout and the cache's rules for window, flush and reserve. They are checked
against the buffers of real caches to the byte; with them, a budget needs no memory to be worked out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import lcm

from tq_core.cache.block_table import BlockTable
from tq_core.cache.breakdown import LINES, Breakdown, channels_of, layouts, packed_lines
from tq_core.cache.pool import PagePool
from tq_core.codecs.arms import Arm
from tq_core.codecs.turbo_step import CHUNK_PAGES, chunk_count, fusable
from tq_core.errors import ValueRangeError, check
from tq_core.shapes import ModelShape

ENTRY_BYTES = 4
_STRIDE = 64  # of the search for the longest context
_F32_BYTES = 4


def split_tokens(arm: Arm, n_tokens: int) -> tuple[int, int, int]:
    """(sink, packed, recent) tokens of a layer that holds ``n_tokens``, as the cache divides them.

    The oldest ``flush_tokens`` leave the window together, as soon as ``window`` others remain.
    """
    sinks = min(n_tokens, arm.sinks)
    rest = n_tokens - sinks
    if arm.window is None:
        return sinks, 0, rest
    packed = max(rest - arm.window, 0) // arm.flush_tokens * arm.flush_tokens
    return sinks, packed, rest - packed


def _span(first: int, end: int, per: int) -> int:
    """Pages that hold slots first..end-1 when whole pages before ``first`` were given back."""
    return -(-end // per) - first // per


def _recent_most(arm: Arm, rest: int, per: int) -> int:
    """Most pages of a layer's recent window while ``rest`` tokens arrive one by one."""
    window, flush = arm.window, arm.flush_tokens
    if window is None:
        return _span(0, rest, per)
    last = min(rest, window + flush + 2 * lcm(flush, per))
    return _window_most(window, flush, last, per)


@lru_cache(maxsize=256)  # a search for the longest context asks the same of every full window
def _window_most(window: int, flush: int, last: int, per: int) -> int:
    cycle = lcm(flush, per)  # once the window is full, page counts repeat with this period
    steps = range(max(1, last - 2 * cycle), last + 1)
    gone = [max(step - 1 - window, 0) // flush * flush for step in steps]
    return max((_span(first, step, per) for first, step in zip(gone, steps)), default=0)


def _capacity(reserved: int, most: int, bounded: bool) -> int:
    """Pages of a pool that began with ``reserved`` and had to supply ``most``: asked of the pool, with pages of a byte."""
    if most <= reserved:
        return reserved
    pool = PagePool(1, reserved)
    pool.bounded = bounded
    while pool.in_use < most:
        pool.allocate()
    return pool.capacity


class _Count:
    """So many entries without their content, which for a plan of millions of pages would only be copied."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, where: slice) -> None:
        return None

    def __setitem__(self, where: slice, entries: None) -> None:
        pass


class _CountedTable(BlockTable):
    room = staticmethod(_Count)  # type: ignore[assignment]


def _table_entries(opened: int, head: Callable[[int], int]) -> int:
    """Entries of a block table that opened so many pages; ``head(m)`` pages were given back when page m was opened.

    Asked of the table, from one growth to the next; with a full window all growths are alike.
    """
    table, kept = _CountedTable(), -1
    while (full := table.held[1] + len(table.held[0])) < opened:
        table.head, table.end = head(full), full
        if table.head and len(table) == kept:
            break
        kept = len(table)
        table.make_room(table.head)
    return len(table.held[0])


def _table_bytes(arm: Arm, n_tokens: int, packed_per: int, half_per: int, layers: int) -> int:
    """Bytes of the block tables of all layers and stores, spare entries included."""
    sinks, packed, recent = split_tokens(arm, n_tokens)

    def gone(page: int) -> int:
        return split_tokens(arm, sinks + page * half_per)[1] // half_per

    entries = _table_entries(-(-sinks // half_per), lambda _: 0) + _table_entries(
        -(-packed // packed_per), lambda _: 0
    )
    return ENTRY_BYTES * layers * (entries + _table_entries(-(-(packed + recent) // half_per), gone))


def scratch_bytes(shape: ModelShape, arm: Arm, n_tokens: int) -> int:
    """Largest workspace of a decode step while the history grew to ``n_tokens``: softmax states, logits, weights."""
    page_tokens, heads = arm.key_codec.page_tokens, shape.n_query_heads
    fused = fusable(arm.key_codec, arm.value_codec) is not None

    def step(n: int) -> int:
        sinks, packed, recent = split_tokens(arm, n)
        chunks = chunk_count(packed, page_tokens) if fused else min(packed, 1)
        states = chunks + min(sinks, 1) + min(recent, 1)
        workspace = 0 if fused else 2 * min(packed, CHUNK_PAGES * page_tokens)  # logits and weights of a run
        return _F32_BYTES * heads * (states * (2 + shape.head_dim) + workspace)

    return max((step(n) for n in range(max(1, n_tokens - arm.flush_tokens), n_tokens + 1)), default=0)


def planned(shape: ModelShape, arm: Arm, n_tokens: int, reserve: bool = True) -> Breakdown:
    """Bytes by line of a cache that holds ``n_tokens`` in every layer and has made decode steps.

    With ``reserve`` the pools are those of a cache made with ``reserve_tokens=n_tokens`` and filled layer after
    layer, by one append and then decode steps of one token; without, no page is idle. Raises CodecError or ShapeError for an arm that cannot store the shape,
    ValueRangeError for a negative number of tokens.
    """
    check(n_tokens >= 0, "n_tokens", "a count of tokens, 0 or more", n_tokens, ValueRangeError)
    for codec in (arm.key_codec, arm.value_codec):
        codec.check(shape.head_dim)
    sinks, packed, recent = split_tokens(arm, n_tokens)
    layout, half = layouts(shape, arm)
    per, layers = half.page_tokens, shape.n_layers
    pages = {
        "packed": -(-packed // layout.page_tokens),
        "sinks": -(-sinks // per),
        "recent": _span(packed, packed + recent, per),
    }
    lines = packed_lines(layout, layers * pages["packed"], layers * packed)
    lines["recent window"] = layers * pages["recent"] * half.page_bytes
    lines["sink tokens"] = layers * pages["sinks"] * half.page_bytes
    lines["scratch"] = scratch_bytes(shape, arm, n_tokens)
    lines["fixed tables"] = sum(c.fixed_bytes(shape.head_dim) for c in (arm.key_codec, arm.value_codec))
    lines["block tables"] = _table_bytes(arm, n_tokens, layout.page_tokens, per, layers)
    capacity = layers * sum(pages.values())
    if reserve:
        wanted = reserved_tokens(arm, n_tokens)
        # Only the window gives pages back: while a layer fills, it may hold more than it ends with.
        extra = max(_recent_most(arm, packed + recent, per) - pages["recent"], 0)
        for name, store in (("packed", layout), ("sinks", half), ("recent", half)):
            in_use = layers * pages[name]
            set_aside = layers * -(-wanted[name] // store.page_tokens)
            window = name == "recent"
            held = _capacity(
                set_aside, in_use + extra if window else in_use, window and arm.window is not None
            )
            lines["idle pages"] += (held - in_use) * store.page_bytes
            capacity += held - in_use
    lines["block tables"] += ENTRY_BYTES * capacity  # a reference count for every page of the pools
    return Breakdown(lines, n_tokens, channels_of(shape))


def reserved_tokens(arm: Arm, n_tokens: int) -> dict[str, int]:
    """Tokens per layer for which a cache with ``reserve_tokens=n_tokens`` sets pages aside, by store."""
    window = n_tokens if arm.window is None else min(n_tokens, arm.window + 2 * arm.flush_tokens)
    packed = 0 if arm.window is None else n_tokens
    return {"sinks": min(arm.sinks, n_tokens), "packed": packed, "recent": window}


def planned_local(
    shape: ModelShape, arm: Arm, n_tokens: int, local_layers: int = 0, sliding_window: int = 0
) -> Breakdown:
    """As ``planned`` for a model in which ``local_layers`` layers attend to the newest ``sliding_window`` tokens only.

    Such layers are counted with the most that they hold when whole pages are retired: the sliding window and one
    token less than a page. PagedCache retires none: it keeps what a sliding window hides, in every layer, and its
    ledger counts it. The step's scratch and the fixed tables serve all layers and are counted once.
    Raises ValueRangeError unless 0 <= local_layers <= n_layers.
    """
    layers = shape.n_layers
    check(0 <= local_layers <= layers, "local_layers", f"0..{layers}", local_layers, ValueRangeError)
    page = layouts(shape, arm)[1 if arm.window is None else 0].page_tokens
    held = min(n_tokens, sliding_window + page - 1)
    if local_layers == 0 or held == n_tokens:
        return planned(shape, arm, n_tokens)
    lines = dict.fromkeys(LINES, 0)
    for count, tokens in ((layers - local_layers, n_tokens), (local_layers, held)):
        if count:
            part = planned(
                ModelShape(count, shape.n_query_heads, shape.n_kv_heads, shape.head_dim), arm, tokens
            )
            for name, nbytes in part.nbytes.items():
                once = name in ("scratch", "fixed tables")
                lines[name] = max(lines[name], nbytes) if once else lines[name] + nbytes
    return Breakdown(lines, n_tokens, channels_of(shape))


def longest(total: Callable[[int], int], budget: int) -> int:
    """A number of tokens whose ``total(tokens)`` bytes fit into ``budget`` while those of one token more do not.

    0 when not even one token fits. ``total`` must grow without limit.
    """
    at_low = total(1)
    if at_low > budget:
        return 0
    low, high, at_high = 1, _STRIDE, total(_STRIDE)
    while at_high <= budget:
        low, at_low, high = high, at_high, high * _STRIDE
        at_high = total(high)
    near = high
    while high - low > 1:
        # Bytes grow by pages, nearly on a line: look a little to both sides of where it meets the budget.
        near, guess = near // _STRIDE, low + (budget - at_low) * (high - low) // (at_high - at_low)
        places = (guess - near, guess + near) if near > 1 else ((low + high) // 2,)
        for place in places:
            if low < place < high:
                nbytes = total(place)
                if nbytes <= budget:
                    low, at_low = place, nbytes
                else:
                    high, at_high = place, nbytes
    return low
