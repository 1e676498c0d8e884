"""The fused decode step of structured TurboQuant: scores, softmax and sums in one pass over the pages.

A long history is cut into chunks of a fixed number of pages, each with a softmax state of its own; the states
are merged in order by the caller. The cut depends on the length alone, never on how many threads run.
"""

from __future__ import annotations

import numpy as np

from tq_core.codecs.base import F32, KeyCodec, Pages, ValueCodec
from tq_core.codecs.turboquant import TurboKeys, TurboValues
from tq_core.kernels.backend import Backend
from tq_core.math.books import load_books, widths_for
from tq_core.math.quantize import QUERY_MAX, SMALL_MAX

CHUNK_PAGES = 32
# The step's exponential is a power of two, so its logits are scaled by log2 e, once, through the query.
LOG2_E = 1.4426950408889634


def fusable(keys: KeyCodec, values: ValueCodec) -> tuple[TurboKeys, TurboValues] | None:
    """The pair when it has a fused step: structured TurboQuant on both sides with the same integer arithmetic."""
    if not (isinstance(keys, TurboKeys) and isinstance(values, TurboValues)):
        return None
    return (keys, values) if keys.arithmetic == values.arithmetic != "f32" else None


def attend(
    backend: Backend,
    keys: TurboKeys,
    values: TurboValues,
    queries: F32,
    scale: float,
    pages: Pages,
    n_tokens: int,
) -> tuple[F32, F32, F32]:
    """Softmax states over slots 0..n_tokens-1: peaks (c, n_query_heads), totals, outs (c, n_query_heads, head_dim)."""
    heads, d = queries.shape
    fast = keys.arithmetic == "fast"
    rotated = keys.rotate(backend, queries, inverse=False)
    query, step = np.empty((heads, d), np.int16), np.empty(heads, np.float32)
    limit = SMALL_MAX if fast else QUERY_MAX
    backend.call(
        "quantize_query", x=rotated, query=query, step=step, scale=scale * LOG2_E, limit=float(limit)
    )
    page_tokens, books = pages.layout.page_tokens, load_books()
    chunks = -(-n_tokens // (CHUNK_PAGES * page_tokens))
    peaks, totals = np.full((chunks, heads), -np.inf, np.float32), np.zeros((chunks, heads), np.float32)
    outs = np.zeros((chunks, heads, d), np.float32)
    for i, (_, count, run) in enumerate(pages.runs(n_tokens, CHUNK_PAGES)):
        backend.call(
            "attend_packed", query=query, step=step, key_widths=widths_for(keys.bits, d),
            value_widths=widths_for(values.bits, d), levels=books.levels, book_scale=books.scale, pages=run.table,
            layout=run.layout.words, pool=run.pool, peak=peaks[i], total=totals[i], out=outs[i],
            n_kv_heads=run.layout.n_kv_heads, n_tokens=count, small=int(fast),
        )  # fmt: skip
    plain = values.rotate(backend, outs.reshape(-1, d), inverse=True)
    return peaks, totals, plain.reshape(outs.shape)
