"""Attention of many sequences at once over pages of one pool: a decode step as a serving loop calls it.

A pool is a row of pages; a sequence is a row of the block tables, in token order, and a count of tokens. Pages may lie
in any order, and sequences that share a prefix name the same pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.cache.attention import F32, SoftmaxStates
from tq_core.cache.tokens import check_tokens
from tq_core.codecs.base import KeyCodec, Pages, ValueCodec
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.errors import DTypeError, PageError, ShapeError, ValueRangeError, check
from tq_core.kernels.backend import Backend, get_backend
from tq_core.kernels.layout import PageLayout
from tq_core.kernels.threads import thread_count


@dataclass(frozen=True)
class HalfPart:
    """Tokens of every sequence kept as float16 rows: sink tokens, or a recent window.

    pool (bytes,) uint8 of fp16 pages; block_tables (n_sequences, n_pages) uint32; counts (n_sequences,) tokens that are
    live, from logical slot firsts (n_sequences,) on, zeros when None.
    """

    pool: npt.NDArray[np.uint8]
    block_tables: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.integer[Any]]
    firsts: npt.NDArray[np.integer[Any]] | None = None


def paged_attention(
    queries: F32,
    pool: npt.NDArray[np.uint8],
    block_tables: npt.NDArray[np.uint32],
    context_lens: npt.NDArray[np.integer[Any]],
    *,
    keys: KeyCodec,
    values: ValueCodec,
    n_kv_heads: int,
    backend: Backend | None = None,
    scale: float | None = None,
    threads: int | None = None,
    sinks: HalfPart | None = None,
    recent: HalfPart | None = None,
    layer: int | None = None,
) -> F32:
    """One token's attention for each sequence: (n_sequences, n_query_heads, head_dim) float32.

    queries (n_sequences, n_query_heads, head_dim) float32, after RoPE. pool (bytes,) uint8 of pages written by ``keys``
    and ``values``. block_tables (n_sequences, n_pages) uint32; entries beyond a sequence's context are not looked at.
    context_lens (n_sequences,) integers, 0 or more. scale defaults to 1/sqrt(head_dim). ``sinks`` come before and
    ``recent`` after the packed tokens. layer: of these pages, which codecs with tables per layer must know. A sequence without any token gets zeros.

    Each row equals, bit for bit, what the sequence gives alone, with any order of its pages and any count of threads
    (see kernels.threads.thread_count). Raises DTypeError, ShapeError, ValueRangeError or CodecError, and PageError for
    a table that is too short or names a page outside the pool, before any kernel runs.
    """
    whole = isinstance(n_kv_heads, (int, np.integer)) and not isinstance(n_kv_heads, bool) and n_kv_heads > 0
    check(whole, "n_kv_heads", "a positive int", repr(n_kv_heads), ValueRangeError)
    check(isinstance(queries, np.ndarray), "queries", "a float32 array", type(queries).__name__, DTypeError)
    check(
        queries.ndim == 3,
        "queries",
        "shape (n_sequences, n_query_heads, head_dim)",
        queries.shape,
        ShapeError,
    )
    n, heads, d = queries.shape
    check(heads > 0 and heads % n_kv_heads == 0, "queries", f"a multiple of {n_kv_heads} query heads", heads)
    for codec in (keys, values):
        codec.check(d)
    check(
        keys.page_tokens == values.page_tokens,
        "values",
        f"pages of {keys.page_tokens} tokens",
        values.page_tokens,
    )
    check_tokens("queries", queries, n, heads, d)
    factor = 1.0 / np.sqrt(d) if scale is None else scale
    check(bool(np.isfinite(factor)), "scale", "a finite number", repr(scale), ValueRangeError)
    packed = HalfPart(pool, block_tables, context_lens)
    parts = [("", packed, keys, values)]
    parts += [
        (f"{name}: ", p, HalfKeys(), HalfValues()) for name, p in (("sinks", sinks), ("recent", recent)) if p
    ]
    whole = layer is None or (
        isinstance(layer, (int, np.integer)) and not isinstance(layer, bool) and layer >= 0
    )
    check(whole, "layer", "None or 0, 1, ...", repr(layer), ValueRangeError)
    found = {label: _histories(label, p, n, int(n_kv_heads), d, k, v, layer) for label, p, k, v in parts}
    runner = backend or get_backend()
    states = SoftmaxStates(
        runner, np.ascontiguousarray(queries), float(np.float32(factor)), thread_count(threads, runner)
    )
    if sinks:
        states.add_half(found["sinks: "])
    states.add_packed(keys, values, found[""])
    if recent:
        states.add_half(found["recent: "])
    return states.merged()


def _histories(
    label: str,
    part: HalfPart,
    n: int,
    n_kv_heads: int,
    head_dim: int,
    keys: KeyCodec,
    values: ValueCodec,
    layer: int | None,
) -> list[tuple[Pages, int, int]]:
    """(pages, tokens, first) of every sequence, all checked; the tables hold just the pages that are read."""
    pool, tables = part.pool, part.block_tables
    names = ("pool", "block_tables", "context_lens") if not label else ("pool", "block_tables", "counts")
    for name, array, dtype, axes in ((names[0], pool, np.uint8, 1), (names[1], tables, np.uint32, 2)):
        got = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        check(got == dtype, label + name, f"a {dtype.__name__} array", got, DTypeError)
        check(array.ndim == axes, label + name, f"{axes} axes", array.shape, ShapeError)
    check(bool(pool.flags.c_contiguous), f"{label}{names[0]}", "a contiguous array", pool.strides, ShapeError)
    check(len(tables) == n, f"{label}{names[1]}", f"{n} rows, one per sequence", tables.shape, ShapeError)
    counts = _counts(label + names[2], part.counts, n)
    firsts = np.zeros(n, np.int64) if part.firsts is None else _counts(f"{label}firsts", part.firsts, n)
    layout = PageLayout(n_kv_heads, keys.page_tokens, keys.streams(head_dim) + values.streams(head_dim))
    n_pages, slots = pool.size // layout.page_bytes, tables.shape[1] * layout.page_tokens
    made = []
    for i, (count, first) in enumerate(zip(counts.tolist(), firsts.tolist())):
        end = first + count
        expected = f"a table of {-(-end // layout.page_tokens)} pages for {end} tokens"
        check(end <= slots, f"{label}{names[1]} of sequence {i}", expected, tables.shape[1], PageError)
        table = np.ascontiguousarray(tables[i, : -(-end // layout.page_tokens)])
        top = int(table.max(initial=0))
        expected = f"page indices below {n_pages}, the pages in the pool"
        check(not len(table) or top < n_pages, f"{label}{names[1]} of sequence {i}", expected, top, PageError)
        made.append((Pages(pool, table, layout, layer), count, first))
    return made


def _counts(name: str, counts: Any, n: int) -> npt.NDArray[np.int64]:
    """(n,) int64 from integers that are 0 or more and below 2^31."""
    is_array = isinstance(counts, np.ndarray)
    got = counts.dtype if is_array else type(counts).__name__
    check(is_array and counts.dtype.kind in "iu", name, "an array of integers", got, DTypeError)
    check(counts.shape == (n,), name, f"shape ({n},), one per sequence", counts.shape, ShapeError)
    low, high = int(counts.min(initial=0)), int(counts.max(initial=0))
    check(0 <= low and high < 2**31, name, "counts in 0..2^31-1", (low, high), ValueRangeError)
    return counts.astype(np.int64)
