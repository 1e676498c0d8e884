"""The numpy twins of the kernels whose codes are signs: one bit per channel, 1 for plus.

Signs lie in the tiles of math/tiles.py at a width of one bit, with a float16 scale per token.
"""

from __future__ import annotations

import numpy as np

from tq_core.kernels.reference_pages import head_parts, pages_of
from tq_core.math import tiles
from tq_core.math.quantize import quantize_symmetric

RUN_CHANNELS = 256  # of a sketch that is quantized and summed at a time


def _signs(stream, channels, keys, count):
    """(count, channels) int64 of +1 and -1."""
    bits = tiles.unpack_stream(stream, np.ones(channels // 16, np.uint8), keys)[:count]
    return 2 * bits.astype(np.int64) - 1


def _parts(pool, page, layout, kv_head, channels, keys, count):
    widths = np.ones(channels // 16, np.uint8)
    scales, stream = head_parts(pool, page, layout, kv_head, widths, keys)
    return scales[:count].view(np.float16).astype(np.float32), _signs(stream, channels, keys, count)


def score_signs(*, query, step, pages, layout, pool, scores, n_kv_heads, n_tokens, offset, add):
    """Exact integer inner products with signs, times the token's scale and the query's step.

    They replace what the columns of ``scores`` hold, or with ``add`` come on top: a sketch of what other codes leave.
    """
    group = query.shape[0] // n_kv_heads
    for page, start, count in pages_of(pages, layout, n_tokens):
        columns = slice(offset + start, offset + start + count)
        for h in range(n_kv_heads):
            scale, signs = _parts(pool, page, layout, h, query.shape[1], True, count)
            for q in range(h * group, (h + 1) * group):
                out = (_by_runs(signs, query[q]) * scale) * step[q]
                scores[q, columns] = scores[q, columns] + out if add else out


def _by_runs(signs, query):
    """Inner products with runs of 256 channels, each rounded to float32, added in order."""
    total = np.zeros(len(signs), np.float32)
    for first in range(0, len(query), RUN_CHANNELS):
        span = slice(first, first + RUN_CHANNELS)
        total = total + (signs[:, span] @ query[span].astype(np.int64)).astype(np.float32)
    return total


def sum_signs(*, weights, pages, layout, pool, out, n_kv_heads, n_tokens, offset):
    """Add sum_t weights[t] * scale[t] * sign[t] to out: exact integers within a page, pages in order."""
    group = weights.shape[0] // n_kv_heads
    for page, start, count in pages_of(pages, layout, n_tokens):
        columns = slice(offset + start, offset + start + count)
        for h in range(n_kv_heads):
            scale, signs = _parts(pool, page, layout, h, out.shape[1], False, count)
            for q in range(h * group, (h + 1) * group):
                integers, unit = quantize_symmetric(weights[q, columns] * scale)
                exact = (integers.astype(np.int64) @ signs).astype(np.float32)
                out[q] = out[q] + exact * unit


def _sketch(start, query, channels, rows, minus):
    """start less (or plus) query[c] times row c of a transposed projection, channels in order."""
    total = start
    for c in channels:
        part = query[c] * rows[c]
        total = total - part if minus else total + part
    return total


def _add_sketch(total, signs, sketch, scale):
    """total plus scale * <sketch, signs>, the sketch rounded to integers run by run."""
    for first in range(0, len(sketch), RUN_CHANNELS):
        span = slice(first, first + RUN_CHANNELS)
        integers, step = quantize_symmetric(sketch[span])
        exact = (signs[:, span] @ integers.astype(np.int64)).astype(np.float32)
        total = total + (exact * scale) * step
    return total


def score_sketch(
    *, query, sketched, inner, outer, pages, layout, pool, scores, n_kv_heads, n_tokens, offset,
    n_outliers, outliers_at, outer_scales_at, outer_codes_at, inner_factor, outer_factor,
):  # fmt: skip
    """QJL's scores: signs of two sketches, and the query's sketch without, and of, each tile's outlier channels.

    inner (head_dim, rows) and outer are the two projections transposed; ``sketched`` is the whole query under the first.
    A tile of 32 tokens has its outlier channels at outliers_at, one byte each up to head_dim 256, else two; an index
    beyond the last channel counts as that one. The layout's key streams are those of the inliers.
    """
    group, d = query.shape[0] // n_kv_heads, query.shape[1]
    rows, outer_rows = inner.shape[1], outer.shape[1]
    outer_layout = layout.copy()
    outer_layout[4:6] = outer_scales_at, outer_codes_at
    index_type = np.dtype(np.uint8 if d <= 256 else np.uint16)
    for page, start, count in pages_of(pages, layout, n_tokens):
        for h in range(n_kv_heads):
            scale, signs = _parts(pool, page, layout, h, rows, True, count)
            scale = scale * np.float32(inner_factor)
            outer_scale, outer_signs = _parts(pool, page, outer_layout, h, outer_rows, True, count)
            outer_scale = outer_scale * np.float32(outer_factor)
            base = int(page) * int(layout[1]) + int(layout[2]) + h * int(layout[3]) + int(outliers_at)
            for first in range(0, count, tiles.TILE_TOKENS):
                tile = slice(first, min(first + tiles.TILE_TOKENS, count))
                at = base + first // tiles.TILE_TOKENS * n_outliers * index_type.itemsize
                index = pool[at : at + n_outliers * index_type.itemsize].view(index_type)
                channels = np.minimum(index, d - 1)
                for q in range(h * group, (h + 1) * group):
                    mine = _sketch(sketched[q], query[q], channels, inner, minus=True)
                    other = _sketch(np.zeros(outer_rows, np.float32), query[q], channels, outer, minus=False)
                    total = np.zeros(tile.stop - first, np.float32)
                    total = _add_sketch(total, signs[tile], mine, scale[tile])
                    total = _add_sketch(total, outer_signs[tile], other, outer_scale[tile])
                    scores[q, offset + start + first : offset + start + tile.stop] = total


def _store(keys, *, codes, scales, widths, pages, layout, pool, first):
    """Codes (n, n_kv_heads, channels) and scales (n, n_kv_heads) into slots first, first + 1, ... of the pages."""
    largest = ((1 << np.repeat(widths.astype(np.int64), 16)) - 1).astype(np.uint8)
    page_tokens, size = int(layout[0]), tiles.tile_bytes(widths)
    tokens = np.arange(first, first + len(codes))
    for page in np.unique(tokens // page_tokens):
        mine = tokens // page_tokens == page
        slots = tokens[mine] % page_tokens
        for h in range(codes.shape[1]):
            scale_part, code_part = head_parts(pool, pages[page], layout, h, widths, keys)
            scale_part[slots] = scales[mine, h]
            low = slots[0] // tiles.TILE_TOKENS
            span = slice(low * size, (slots[-1] // tiles.TILE_TOKENS + 1) * size)
            stored = tiles.unpack_stream(code_part[span], widths, keys)
            stored[slots - low * tiles.TILE_TOKENS] = codes[mine, h] & largest
            code_part[span] = tiles.pack_stream(stored, widths, keys)


def store_key_codes(**arguments):
    """Store codes of one to four bits, each group's width times 16 channels, as keys; bits beyond a width are dropped."""
    _store(True, **arguments)


def store_value_codes(**arguments):
    """The same as values."""
    _store(False, **arguments)
