"""The fused decode step of structured TurboQuant: scores, softmax and sums in one pass over the pages.

A long history is cut into chunks of pages, each with a softmax state of its own; the states are merged in order
by the caller. The cut depends on the length alone, never on how many threads run. There are at most CHUNKS_MAX
chunks, so that a step needs no more scratch however long the history is. KV heads do not meet in a kernel, so
whether a call takes one of them or all changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tq_core.codecs.base import F32, KeyCodec, Pages, ValueCodec
from tq_core.codecs.turbo_tiles import TileKeys, TileValues
from tq_core.kernels.backend import Backend
from tq_core.kernels.threads import Unit, run_units
from tq_core.math.books import load_books
from tq_core.math.quantize import QUERY_MAX, SMALL_MAX

CHUNK_PAGES, CHUNKS_MAX = 32, 16
# The step's exponential is a power of two, so its logits are scaled by log2 e, once, through the query.
LOG2_E = 1.4426950408889634
States = tuple[F32, F32, F32]


def chunk_pages(n_tokens: int, page_tokens: int) -> int:
    """Pages in a chunk of a history of ``n_tokens``: CHUNK_PAGES, or more where that would give over CHUNKS_MAX chunks."""
    return max(CHUNK_PAGES, -(-n_tokens // (CHUNKS_MAX * page_tokens)))


def chunk_count(n_tokens: int, page_tokens: int) -> int:
    """Chunks, and so softmax states, of a history of ``n_tokens``."""
    return -(-n_tokens // (chunk_pages(n_tokens, page_tokens) * page_tokens))


def fusable(keys: KeyCodec, values: ValueCodec) -> tuple[TileKeys, TileValues] | None:
    """The pair when it has a fused step: tiles on both sides, read with the same integer arithmetic."""
    if not (isinstance(keys, TileKeys) and isinstance(values, TileValues)):
        return None
    return (keys, values) if keys.arithmetic == values.arithmetic != "f32" else None


def attend(
    backend: Backend,
    keys: TileKeys,
    values: TileValues,
    queries: F32,
    scale: float,
    pages: Pages,
    n_tokens: int,
    threads: int = 1,
    first: int = 0,
) -> States:
    """Softmax states over slots first..n_tokens-1: peaks (c, n_query_heads), totals, outs (c, n_query_heads, head_dim)."""
    return attend_batch(backend, keys, values, queries[None], scale, [(pages, n_tokens, first)], threads)[0]


def attend_batch(
    backend: Backend,
    keys: TileKeys,
    values: TileValues,
    queries: F32,
    scale: float,
    histories: Sequence[tuple[Pages, int, int]],
    threads: int = 1,
) -> list[States]:
    """``attend`` for several sequences: queries (n_sequences, n_query_heads, head_dim), a history for each: (pages, n_tokens, first).

    Chunks are cut where they are without ``first``; those that end before it keep an empty state.
    Units of work are (sequence, chunk), or single KV heads of them while that would leave a thread idle.
    """
    n, heads, d = queries.shape
    fast, rows = keys.arithmetic == "fast", queries.reshape(n * heads, d)
    if n == 0:
        return []
    layer = histories[0][0]  # maps may be a layer's own; all sequences are in one layer
    rotated = keys.map_queries(backend, queries, layer).reshape(n * heads, d)
    shift = keys.query_shift(queries, scale * LOG2_E, layer)
    query, step = np.empty((n * heads, d), np.int16), np.empty(n * heads, np.float32)
    limit = SMALL_MAX if fast else QUERY_MAX
    backend.call(
        "quantize_query", x=rotated, query=query, step=step, scale=scale * LOG2_E, limit=float(limit)
    )
    centre_query = keys.centre_query(rows, scale * LOG2_E)
    chunks = [chunk_count(tokens, pages.layout.page_tokens) for pages, tokens, _ in histories]
    ends = np.cumsum([0, *chunks])
    peaks = np.full((ends[-1], heads), -np.inf, np.float32)
    totals, outs = np.zeros((ends[-1], heads), np.float32), np.zeros((ends[-1], heads, d), np.float32)
    books = load_books()
    attend_packed = partial(
        backend.call, "attend_packed", key_widths=keys.widths(d), value_widths=values.widths(d),
        levels=books.levels, book_scale=books.scale, small=int(fast),
    )  # fmt: skip
    units: list[Unit] = []
    by_head = threads > 1 and ends[-1] < 2 * threads
    for i, (pages, tokens, start) in enumerate(histories):
        kv_heads = pages.layout.n_kv_heads
        group = heads // kv_heads
        per_chunk = chunk_pages(tokens, pages.layout.page_tokens)
        for c, (slot, count, run) in enumerate(pages.runs(tokens, per_chunk), ends[i]):
            skipped = min(max(start - slot, 0), count)
            for head, taken in [(h, 1) for h in range(kv_heads)] if by_head else [(0, kv_heads)]:
                own = slice(head * group, (head + taken) * group)
                asked = slice(i * heads + own.start, i * heads + own.stop)
                units.append(
                    partial(
                        attend_packed,
                        query=query[asked],
                        step=step[asked],
                        centre_query=centre_query[asked],
                        pages=run.table,
                        layout=run.layout.words_from(head),
                        pool=run.pool,
                        peak=peaks[c, own],
                        total=totals[c, own],
                        out=outs[c, own],
                        n_kv_heads=taken,
                        n_tokens=count - skipped,
                        first=skipped,
                    )
                )
    run_units(units, threads)
    if shift is not None:
        for i, (a, b) in enumerate(zip(ends, ends[1:])):
            peaks[a:b] += shift[i]
    plain = values.unmap_sums(backend, outs, layer)
    return [(peaks[a:b], totals[a:b], plain[a:b]) for a, b in zip(ends, ends[1:])]
