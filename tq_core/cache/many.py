"""A step of many tokens: appended together, then each token's query over just what it would have found alone.

Bit for bit what one token after the other gives. Tokens leave the window for packed pages in the middle of the step, so
every token has its own span of sinks, packed pages and window; a kernel call serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tq_core.cache.attention import Mask, attend_unfused, empty_states
from tq_core.cache.centres import centre_scores
from tq_core.cache.store import PageStore
from tq_core.codecs import turbo_step
from tq_core.codecs.arms import Arm
from tq_core.codecs.base import Pages
from tq_core.kernels.backend import Backend
from tq_core.kernels.threads import Unit, run_units

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
TOKENS_MAX = 32
SCRATCH_SHARE = 32  # scratch of a step stays below this fraction of the pages that the cache holds


class Spans(NamedTuple):
    """Slots firsts[i]..ends[i]-1 of the same pages for token i; both (n_tokens,) int64."""

    pages: Pages
    ends: I64
    firsts: I64

    def of(self, tokens: slice) -> Spans:
        """Of some of the tokens."""
        return Spans(self.pages, self.ends[tokens], self.firsts[tokens])


class Holder(Protocol):
    """What is read of a cache: ``PagedCache`` is one."""

    arm: Arm
    backend: Backend
    threads: int

    @property
    def store_list(self) -> tuple[PageStore, PageStore, PageStore]: ...


@dataclass(frozen=True)
class Appended:
    """Tokens of one layer in the stores, still all in the window: what every one of them sees, and how many are to leave."""

    parts: tuple[Spans, Spans, Spans]  # sinks, packed pages, window
    leaving: int


def tokens_at_once(cache: Holder, layer: int, n_query_heads: int, head_dim: int) -> int:
    """How many tokens a step takes together: no more than the window's last page has room for, or a page of its own.

    So the window never holds a page that it would not hold while tokens come one by one; and states and workspaces stay
    small beside the cache itself.
    """
    _, packed, recent = cache.store_list
    room = recent.layout.page_tokens - recent.layers[layer].end % recent.layout.page_tokens
    n_tokens, page_tokens = packed.count(layer) + TOKENS_MAX, packed.layout.page_tokens
    parts = 2 + turbo_step.chunk_count(n_tokens, page_tokens)
    nbytes = 4 * n_query_heads * parts * (head_dim + 2)
    if turbo_step.fusable(cache.arm.key_codec, cache.arm.value_codec) is None and _go_together(cache.arm):
        nbytes += 8 * n_query_heads * min(n_tokens, turbo_step.CHUNK_PAGES * page_tokens)
    held = sum(store.pool.buffer.nbytes for store in cache.store_list)
    return max(1, min(TOKENS_MAX, room, int(held / (SCRATCH_SHARE * nbytes))))


def _go_together(arm: Arm) -> bool:
    """Whether tokens over the same slots are scored in one call: only where more rows give each row the same bits."""
    return arm.flush_tokens > 1 and arm.key_codec.tags.same_bits and arm.value_codec.tags.same_bits


def append_many(cache: Holder, layer: int, keys: F32, values: F32) -> Appended:
    """Append tokens (n_tokens, n_kv_heads, head_dim) to sinks and window, and encode those that leave the window."""
    sinks, packed, recent = cache.store_list
    arm, n = cache.arm, len(keys)
    before = [store.count(layer) for store in (sinks, packed, recent)]
    position = sum(before)
    to_sinks = min(max(arm.sinks - position, 0), n)
    if to_sinks:
        sinks.append(layer, keys[:to_sinks], values[:to_sinks], position)
    if to_sinks < n:
        recent.append(layer, keys[to_sinks:], values[to_sinks:], position + to_sinks)
    done = np.arange(1, n + 1)
    in_window = before[2] + np.maximum(done - to_sinks, 0)
    gone = np.zeros(n, np.int64)
    if arm.window is not None:
        gone = arm.flush_tokens * np.maximum(0, (in_window - arm.window) // arm.flush_tokens)
    leaving = int(gone[-1])
    window = recent.layers[layer]
    if leaving:
        old_keys, old_values = (np.ascontiguousarray(x) for x in recent.oldest(layer, leaving))
        packed.append(layer, old_keys, old_values, window.position + window.first)
    zeros = np.zeros(n, np.int64)
    parts = (
        Spans(sinks.pages(layer), before[0] + np.minimum(done, to_sinks), zeros),
        Spans(packed.pages(layer), before[1] + gone, zeros),
        Spans(recent.pages(layer), window.first + in_window, window.first + gone),
    )
    return Appended(parts, leaving)


def masked(parts: tuple[Spans, Spans, Spans], mask: Mask) -> tuple[Spans, Spans, Spans]:
    """The spans without what each token's sliding window hides."""
    if mask.sliding_window is None:
        return parts
    counts = np.stack([part.ends - part.firsts for part in parts], axis=1)
    hidden = np.array([mask.hidden(*row) for row in counts.tolist()])
    return tuple(Spans(p.pages, p.ends, p.firsts + hidden[:, i]) for i, p in enumerate(parts))  # type: ignore[return-value]


def attend_many(
    cache: Holder, layer: int, queries: F32, scale: float, parts: tuple[Spans, Spans, Spans], mask: Mask
) -> tuple[F32, int]:
    """(outputs shaped like queries (n_tokens, n_query_heads, head_dim), bytes of states and workspaces)."""
    parts, nbytes = masked(parts, mask), 0
    out = np.zeros_like(queries)
    for tokens in _alike(parts):
        some = tuple(part.of(tokens) for part in parts)
        asked = np.ascontiguousarray(queries[tokens])
        states, workspace = _states(cache, layer, asked, scale, some)
        nbytes = max(nbytes, workspace + sum(a.nbytes for state in states for a in state))
        _merge(cache, states, mask, out[tokens])
    return out, nbytes


def _alike(parts: tuple[Spans, ...]) -> Iterator[slice]:
    """Runs of tokens that see the same parts, the packed one in as many chunks."""
    page_tokens = parts[1].pages.layout.page_tokens
    ends = parts[1].ends.tolist()
    cuts = [(turbo_step.chunk_pages(n, page_tokens), turbo_step.chunk_count(n, page_tokens)) for n in ends]
    seen = np.stack([part.ends > part.firsts for part in parts], axis=1)
    kinds = [(*row, *cut) for row, cut in zip(seen.tolist(), cuts)]
    start = 0
    for i in range(1, len(kinds) + 1):
        if i == len(kinds) or kinds[i] != kinds[start]:
            yield slice(start, i)
            start = i


def _states(
    cache: Holder, layer: int, queries: F32, scale: float, parts: tuple[Spans, ...]
) -> tuple[list[turbo_step.States], int]:
    states, workspace = [], 0
    for i, part in enumerate(parts):
        if part.ends[0] <= part.firsts[0]:
            continue
        if i == 1:
            state, workspace = _packed(cache, queries, scale, part)
            centres = cache.store_list[1].key_centres
            if centres is not None:
                shift = [centre_scores(centres, layer, query, scale) for query in queries]
                state[0][:] += np.concatenate(shift) * np.float32(turbo_step.LOG2_E)
        else:
            state = _half(cache, queries, scale, part)
        states.append(state)
    return states, workspace


def _half(cache: Holder, queries: F32, scale: float, part: Spans) -> turbo_step.States:
    n, heads, d = queries.shape
    state, rows, pages = empty_states(1, n * heads, d), queries.reshape(n * heads, d), part.pages
    spans = np.stack([part.firsts, part.ends - part.firsts], axis=1).astype(np.uint32)
    bounds = np.linspace(0, n, min(cache.threads, n) + 1).astype(int).tolist()
    units: list[Unit] = []
    for a, b in zip(bounds, bounds[1:]):
        own = slice(a * heads, b * heads)
        units.append(
            partial(
                cache.backend.call,
                "attend_half_each",
                query=rows[own],
                pages=pages.table,
                layout=pages.layout.words,
                pool=pages.pool,
                spans=spans[a:b],
                peak=state[0][0, own],
                total=state[1][0, own],
                out=state[2][0, own],
                n_kv_heads=pages.layout.n_kv_heads,
                scale=scale * turbo_step.LOG2_E,
            )
        )
    run_units(units, cache.threads)
    return state


def _packed(cache: Holder, queries: F32, scale: float, part: Spans) -> tuple[turbo_step.States, int]:
    """(states, bytes of the workspaces that are alive at once)."""
    codecs = cache.arm.key_codec, cache.arm.value_codec
    pair = turbo_step.fusable(*codecs)
    if pair is not None:
        return turbo_step.attend_each(
            cache.backend, *pair, queries, scale, part.pages, part.ends, part.firsts, cache.threads
        ), 0
    n, heads, d = queries.shape
    state, kv_heads = empty_states(1, n * heads, d), part.pages.layout.n_kv_heads
    by_token = [x.reshape(n, heads, *x.shape[2:]) for x in state]
    units: list[Unit] = []

    # Tokens over the same slots are more query heads of the same KV heads.
    def together(tokens: slice) -> None:
        count = tokens.stop - tokens.start
        rows = _by_kv_head(queries[tokens], kv_heads)
        own = empty_states(1, len(rows), d)
        end, first = int(part.ends[tokens.start]), int(part.firsts[tokens.start])
        attend_unfused(cache.backend, *codecs, rows, scale, part.pages, end, first, own)
        for to, array in zip(by_token, own):
            split = array[0].reshape(kv_heads, count, heads // kv_heads, *array.shape[2:])
            to[tokens] = np.swapaxes(split, 0, 1).reshape(count, heads, *array.shape[2:])

    start, most, apart = 0, 0, not _go_together(cache.arm)
    for i in range(1, n + 1):
        if i == n or apart or part.ends[i] != part.ends[start] or part.firsts[i] != part.firsts[start]:
            units.append(partial(together, slice(start, i)))
            start, most = i, max(most, i - start)
    run_units(units, cache.threads)
    longest = min(int(part.ends[-1]), turbo_step.CHUNK_PAGES * part.pages.layout.page_tokens)
    return state, 2 * queries.itemsize * heads * most * longest * min(cache.threads, len(units))


def _by_kv_head(x: F32, kv_heads: int) -> F32:
    """(n_tokens, n_query_heads, head_dim) to rows in the order (KV head, token, query head of it)."""
    n, heads, d = x.shape
    return np.ascontiguousarray(
        x.reshape(n, kv_heads, heads // kv_heads, d).swapaxes(0, 1).reshape(n * heads, d)
    )


def _merge(cache: Holder, states: list[turbo_step.States], mask: Mask, out: F32) -> None:
    n, heads, d = out.shape
    sink = np.zeros((0, n * heads), np.float32)
    if mask.sink_logits is not None:
        sink = np.tile(mask.sink_logits * np.float32(turbo_step.LOG2_E), n)[None]
    if states:
        peaks, totals, outs = (np.concatenate(arrays) for arrays in zip(*states))
        y = out.reshape(n * heads, d)
        cache.backend.call("merge_states", peaks=peaks, totals=totals, outs=outs, sink=sink, y=y)
