"""The fused decode step of structured TurboQuant: scores, softmax and sums in one pass over the pages.

A long history is cut into chunks of pages, each with a softmax state of its own; the states are merged in order
by the caller. The cut depends on the length alone, never on how many threads run. There are at most CHUNKS_MAX
chunks, so that a step needs no more scratch however long the history is. KV heads do not meet in a kernel, so
whether a call takes one of them or all changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

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
I64 = npt.NDArray[np.int64]


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


def _asked(backend: Backend, keys: TileKeys, queries: F32, scale: float, layer: Pages) -> dict[str, Any]:
    """Query arguments of the fused kernels, one row per token and query head, from (n, n_query_heads, head_dim)."""
    n, heads, d = queries.shape
    rotated = keys.map_queries(backend, queries, layer).reshape(n * heads, d)
    query, step = np.empty((n * heads, d), np.int16), np.empty(n * heads, np.float32)
    limit = SMALL_MAX if keys.arithmetic == "fast" else QUERY_MAX
    backend.call(
        "quantize_query", x=rotated, query=query, step=step, scale=scale * LOG2_E, limit=float(limit)
    )
    centre_query = keys.centre_query(queries.reshape(n * heads, d), scale * LOG2_E)
    return {"query": query, "step": step, "centre_query": centre_query}


def _coded(keys: TileKeys, values: TileValues, head_dim: int) -> dict[str, Any]:
    """Arguments of the fused kernels that the codecs decide."""
    books, small = load_books(), int(keys.arithmetic == "fast")
    widths = {"key_widths": keys.widths(head_dim), "value_widths": values.widths(head_dim)}
    return {**widths, "levels": books.levels, "book_scale": books.scale, "small": small}


def attend_each(
    backend: Backend,
    keys: TileKeys,
    values: TileValues,
    queries: F32,
    scale: float,
    pages: Pages,
    ends: I64,
    firsts: I64,
    threads: int = 1,
) -> States:
    """``attend`` for several tokens' queries (n, n_query_heads, head_dim) over the same pages: token i over slots firsts[i]..ends[i]-1.

    All ``ends`` give the same cut into c chunks (chunk_pages, chunk_count). Returns peaks (c, n * n_query_heads), totals
    and outs (c, n * n_query_heads, head_dim). Units of work are (chunk, run of tokens), a run for every thread.
    """
    n, heads, d = queries.shape
    shift = keys.query_shift(queries, scale * LOG2_E, pages)
    asked = _asked(backend, keys, queries, scale, pages)
    most, per_page = int(ends.max()), pages.layout.page_tokens
    cut, chunks = chunk_pages(most, per_page), chunk_count(most, per_page)
    peaks, totals = (
        np.full((chunks, n * heads), -np.inf, np.float32),
        np.zeros((chunks, n * heads), np.float32),
    )
    outs = np.zeros((chunks, n * heads, d), np.float32)
    attend_packed = partial(backend.call, "attend_packed_each", **_coded(keys, values, d))
    units: list[Unit] = []
    bounds = np.linspace(0, n, min(threads, n) + 1).astype(int).tolist()
    for c, (slot, count, run) in enumerate(pages.runs(most, cut)):
        low, high = (np.clip(x - slot, 0, count) for x in (firsts, ends))
        spans = np.stack([low, high - low], axis=1).astype(np.uint32)
        for a, b in zip(bounds, bounds[1:]):
            rows = slice(a * heads, b * heads)
            units.append(
                partial(
                    attend_packed,
                    **{name: array[rows] for name, array in asked.items()},
                    spans=spans[a:b],
                    pages=run.table,
                    layout=run.layout.words,
                    pool=run.pool,
                    peak=peaks[c, rows],
                    total=totals[c, rows],
                    out=outs[c, rows],
                    n_kv_heads=run.layout.n_kv_heads,
                )
            )
    run_units(units, threads)
    if shift is not None:
        peaks += shift.reshape(-1)
    plain = values.unmap_sums(backend, outs.reshape(chunks * n, heads, d), pages)
    return peaks, totals, plain.reshape(outs.shape)


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
    if n == 0:
        return []
    layer = histories[0][0]  # maps may be a layer's own; all sequences are in one layer
    shift = keys.query_shift(queries, scale * LOG2_E, layer)
    asked_all = _asked(backend, keys, queries, scale, layer)
    chunks = [chunk_count(tokens, pages.layout.page_tokens) for pages, tokens, _ in histories]
    ends = np.cumsum([0, *chunks])
    peaks = np.full((ends[-1], heads), -np.inf, np.float32)
    totals, outs = np.zeros((ends[-1], heads), np.float32), np.zeros((ends[-1], heads, d), np.float32)
    attend_packed = partial(backend.call, "attend_packed", **_coded(keys, values, d))
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
                        **{name: rows[asked] for name, rows in asked_all.items()},
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
