"""The numpy backend: what every kernel must compute, bit for bit.

One function per entry of the table, with the table's argument names. They are written to be read,
and to fix the order of every rounding; the C++ kernels are checked against them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.math import lanes, tiles
from tq_core.math.books import BOOK_BITS, Books
from tq_core.math.hadamard import transform
from tq_core.math.quantize import QUERY_MAX, SMALL_MAX, NormMode, quantize_symmetric
from tq_core.math.quantize import encode_rows as encode

F32 = npt.NDArray[np.float32]


def rotate(*, x, signs, hadamard, y, inverse, scale):
    """y = scale * H (signs * x), or scale * signs * (H^T x) when inverse."""
    if inverse:
        y[:] = np.float32(scale) * (signs * transform(x, hadamard, inverse=True))
    else:
        y[:] = np.float32(scale) * transform(signs * x, hadamard)


def encode_rows(*, x, signs, hadamard, widths, levels, book_scale, boundaries, codes, scales, norm_mode):
    """Rotate, quantize and take the stored scale; see math.quantize.encode_rows."""
    books = Books(levels, book_scale, boundaries)
    codes[:], scales[:] = encode(x, signs, hadamard, widths, books, NormMode(norm_mode))


def _append(keys, *, x, signs, hadamard, widths, levels, book_scale, boundaries, pages, layout, pool, norm_mode, first):
    books = Books(levels, book_scale, boundaries)
    page_tokens = int(layout[0])
    for h in range(x.shape[1]):
        codes, scales = encode(x[:, h], signs, hadamard, widths, books, NormMode(norm_mode))
        for i in range(x.shape[0]):
            page, slot = divmod(first + i, page_tokens)
            scale_part, code_part = head_parts(pool, pages[page], layout, h, widths, keys)
            tile, row = divmod(slot, tiles.TILE_TOKENS)
            packed = code_part.reshape(-1, tiles.tile_bytes(widths))[tile]
            stored = tiles.unpack_stream(packed, widths, keys)
            stored[row] = codes[i]
            packed[:] = tiles.pack_stream(stored, widths, keys)
            scale_part[slot] = scales[i]


def append_keys(**arguments):
    """Encode (n, n_kv_heads, head_dim) keys into slots first, first + 1, ... of the block table's pages."""
    _append(True, **arguments)


def append_values(**arguments):
    """The same for values, whose tiles have channels in lanes."""
    _append(False, **arguments)


def head_parts(pool, page, layout, kv_head, widths, keys):
    """Writable views of one KV head's scales (page_tokens,) uint16 and packed codes in a page."""
    page_tokens, page_bytes, header_bytes, head_bytes, *offsets = (int(v) for v in layout)
    base = int(page) * page_bytes + header_bytes + kv_head * head_bytes
    scale_at, code_at = offsets[:2] if keys else offsets[2:]
    scales = pool[base + scale_at :][: 2 * page_tokens].view(np.uint16)
    code_bytes = tiles.tile_bytes(widths) * (page_tokens // tiles.TILE_TOKENS)
    return scales, pool[base + code_at :][:code_bytes]


def _page_codes(pool, page, layout, kv_head, widths, keys, count):
    """Scales (count,) float32 and codes (count, head_dim) of a page's first ``count`` slots."""
    scales, stream = head_parts(pool, page, layout, kv_head, widths, keys)
    return scales[:count].view(np.float16).astype(np.float32), tiles.unpack_stream(stream, widths, keys)[:count]


def _pages(pages, layout, n_tokens):
    """(page, first token, tokens in it) over a block table."""
    page_tokens = int(layout[0])
    for i, page in enumerate(pages):
        start = i * page_tokens
        if start < n_tokens:
            yield page, start, min(page_tokens, n_tokens - start)


def _runs(widths):
    """(book row, channel slice) of each run of groups with one width."""
    edges = [0, *(i for i in range(1, len(widths)) if widths[i] != widths[i - 1]), len(widths)]
    for a, b in zip(edges, edges[1:]):
        yield BOOK_BITS.index(int(widths[a])), slice(16 * a, 16 * b)


def _steps(codes, widths, levels):
    """Centroids as odd integers 2u - 255, (n, head_dim) int64."""
    out = np.empty(codes.shape, np.int64)
    for row, span in _runs(widths):
        out[:, span] = 2 * levels[row][codes[:, span]].astype(np.int64) - 255
    return out


def quantize_query(*, x, query, step, scale, limit):
    """Rotated queries to integers of magnitude at most limit; step carries ``scale`` (the softmax scale) along."""
    integers, steps = quantize_symmetric(x, np.float32(limit))
    query[:] = integers
    step[:] = steps * np.float32(scale)


def score_keys(*, query, step, widths, levels, book_scale, pages, layout, pool, scores, n_kv_heads, n_tokens, offset):
    """Exact integer inner products over the codes; one float32 rounding per width, then the scales."""
    group = query.shape[0] // n_kv_heads
    for page, start, count in _pages(pages, layout, n_tokens):
        columns = slice(offset + start, offset + start + count)
        for h in range(n_kv_heads):
            key_scale, codes = _page_codes(pool, page, layout, h, widths, True, count)
            steps = _steps(codes, widths, levels)
            for q in range(h * group, (h + 1) * group):
                total = np.zeros(count, np.float32)
                for row, span in _runs(widths):
                    exact = steps[:, span] @ query[q, span].astype(np.int64)
                    total = total + exact.astype(np.float32) * book_scale[row]
                scores[q, columns] = (total * key_scale) * step[q]


def score_keys_f32(*, query, widths, levels, book_scale, pages, layout, pool, scores, n_kv_heads, n_tokens, offset, scale):
    """The same scores in float32: tokens in lanes, channels added one after the other."""
    group = query.shape[0] // n_kv_heads
    for page, start, count in _pages(pages, layout, n_tokens):
        columns = slice(offset + start, offset + start + count)
        for h in range(n_kv_heads):
            key_scale, codes = _page_codes(pool, page, layout, h, widths, True, count)
            centroids = _centroids(codes, widths, levels, book_scale)
            for q in range(h * group, (h + 1) * group):
                total = np.zeros(count, np.float32)
                for j in range(query.shape[1]):
                    total = total + query[q, j] * centroids[:, j]
                scores[q, columns] = (total * key_scale) * np.float32(scale)


def _centroids(codes, widths, levels, book_scale):
    out = _steps(codes, widths, levels).astype(np.float32)
    for row, span in _runs(widths):
        out[:, span] = out[:, span] * book_scale[row]
    return out


def sum_values(*, weights, widths, levels, book_scale, pages, layout, pool, out, n_kv_heads, n_tokens, offset):
    """Add sum_t weights[t] * v_hat[t] (rotated basis) to out: exact integers within a page, pages in order.

    Weights, not negative, are multiplied by the token's scale and quantized to integers per page.
    """
    group = weights.shape[0] // n_kv_heads
    for page, start, count in _pages(pages, layout, n_tokens):
        columns = slice(offset + start, offset + start + count)
        for h in range(n_kv_heads):
            value_scale, codes = _page_codes(pool, page, layout, h, widths, False, count)
            steps = _steps(codes, widths, levels)
            for q in range(h * group, (h + 1) * group):
                integers, unit = quantize_symmetric(weights[q, columns] * value_scale)
                exact = (integers.astype(np.int64) @ steps).astype(np.float32)
                for row, span in _runs(widths):
                    out[q, span] = out[q, span] + exact[span] * (unit * book_scale[row])


def sum_values_f32(*, weights, widths, levels, book_scale, pages, layout, pool, out, n_kv_heads, n_tokens, offset):
    """The same in float32: channels in lanes, tokens added one after the other."""
    group = weights.shape[0] // n_kv_heads
    for page, start, count in _pages(pages, layout, n_tokens):
        for h in range(n_kv_heads):
            value_scale, codes = _page_codes(pool, page, layout, h, widths, False, count)
            centroids = _centroids(codes, widths, levels, book_scale)
            for q in range(h * group, (h + 1) * group):
                for t in range(count):
                    weight = weights[q, offset + start + t] * value_scale[t]
                    out[q] = out[q] + weight * centroids[t]


def _half_rows(pool, page, layout, kv_head, head_dim, keys):
    page_tokens, page_bytes, header_bytes, head_bytes, *offsets = (int(v) for v in layout)
    base = int(page) * page_bytes + header_bytes + kv_head * head_bytes + offsets[1 if keys else 3]
    rows = pool[base : base + 2 * page_tokens * head_dim].view(np.float16)
    return rows.reshape(page_tokens, head_dim)


def _half_tokens(pages, layout, first, n_tokens):
    """(page, slot, index) of tokens first .. first + n_tokens - 1."""
    for i in range(n_tokens):
        page, slot = divmod(first + i, int(layout[0]))
        yield pages[page], slot, i


def score_f16(*, query, pages, layout, pool, scores, n_kv_heads, n_tokens, offset, first, scale):
    """Scores against keys stored as float16 rows, from logical slot ``first`` on."""
    group = query.shape[0] // n_kv_heads
    for page, slot, i in _half_tokens(pages, layout, first, n_tokens):
        for h in range(n_kv_heads):
            key = _half_rows(pool, page, layout, h, query.shape[1], True)[slot].astype(np.float32)
            rows = slice(h * group, (h + 1) * group)
            scores[rows, offset + i] = lanes.dot(query[rows], key) * np.float32(scale)


def sum_f16(*, weights, pages, layout, pool, out, n_kv_heads, n_tokens, offset, first):
    """Add sum_t weights[t] * v[t] over float16 rows to out, one token after the other."""
    group = weights.shape[0] // n_kv_heads
    for page, slot, i in _half_tokens(pages, layout, first, n_tokens):
        for h in range(n_kv_heads):
            value = _half_rows(pool, page, layout, h, out.shape[1], False)[slot].astype(np.float32)
            for q in range(h * group, (h + 1) * group):
                out[q] = out[q] + weights[q, offset + i] * value


LOWEST = np.float32(-3.0e38)


def _soften(scores, peak, total):
    """Weights exp(score - peak) of one part of the history, with the state (peak, total) moved on, and the shrink factor."""
    new_peak = np.maximum(peak, scores.max())
    shrink = lanes.exp_f32(peak - new_peak)
    weights = lanes.exp_f32(scores - new_peak)
    return weights, new_peak, total * shrink + lanes.lane_sum(weights), shrink


def attend_packed(
    *, query, step, key_widths, value_widths, levels, book_scale, pages, layout, pool, peak, total, out, n_kv_heads, n_tokens, small
):
    """Move each head's softmax state over packed pages, page by page: exact integer scores, exact integer sums."""
    group, limit = query.shape[0] // n_kv_heads, SMALL_MAX if small else QUERY_MAX
    for page, _, count in _pages(pages, layout, n_tokens):
        scores = np.empty((query.shape[0], count), np.float32)
        score_keys(
            query=query, step=step, widths=key_widths, levels=levels, book_scale=book_scale, pages=[page], layout=layout,
            pool=pool, scores=scores, n_kv_heads=n_kv_heads, n_tokens=count, offset=0,
        )  # fmt: skip
        for q in range(query.shape[0]):
            value_scale, codes = _page_codes(pool, page, layout, q // group, value_widths, False, count)
            weights, peak[q], total[q], shrink = _soften(scores[q], peak[q], total[q])
            integers, unit = quantize_symmetric(weights * value_scale, limit)
            exact = (integers.astype(np.int64) @ _steps(codes, value_widths, levels)).astype(np.float32)
            for row, span in _runs(value_widths):
                out[q, span] = out[q, span] * shrink + exact[span] * (unit * book_scale[row])


def attend_half(*, query, pages, layout, pool, peak, total, out, n_kv_heads, n_tokens, first, scale):
    """Move each head's softmax state over float16 rows, page by page, sums in token order."""
    group, page_tokens = query.shape[0] // n_kv_heads, int(layout[0])
    at = first
    while at < first + n_tokens:
        count = min(page_tokens - at % page_tokens, first + n_tokens - at)
        page, slots = pages[at // page_tokens], slice(at % page_tokens, at % page_tokens + count)
        for q in range(query.shape[0]):
            keys = _half_rows(pool, page, layout, q // group, query.shape[1], True)[slots].astype(np.float32)
            values = _half_rows(pool, page, layout, q // group, query.shape[1], False)[slots].astype(np.float32)
            scores = lanes.dot(query[q], keys) * np.float32(scale)
            weights, peak[q], total[q], shrink = _soften(scores, peak[q], total[q])
            out[q] = out[q] * shrink
            for t in range(count):
                out[q] = out[q] + weights[t] * values[t]
        at += count


def merge_states(*, peaks, totals, outs, y):
    """One output from the states of disjoint parts of the history, parts in order; zeros where all are empty."""
    top = np.maximum(peaks.max(axis=0), LOWEST)
    total, y[:] = np.zeros(peaks.shape[1], np.float32), 0
    for part in range(peaks.shape[0]):
        share = lanes.exp_f32(peaks[part] - top)
        total = total + totals[part] * share
        y[:] = y + outs[part] * share[:, None]
    with np.errstate(divide="ignore"):
        y[:] = y * np.where(total > 0, np.float32(1) / total, np.float32(0))[:, None]


def softmax(*, scores, n_tokens):
    """Replace the first n_tokens columns of each row by their softmax."""
    if n_tokens:
        live = scores[:, :n_tokens]
        weights = lanes.exp_f32(live - live.max(axis=-1, keepdims=True))
        live[:] = weights * (np.float32(1) / lanes.lane_sum(weights))[:, None]


def linear(*, x, w, y):
    """y = x w^T, each entry an inner product in lane order."""
    y[:] = lanes.dot(x[:, None, :], w[None, :, :])


KERNEL_FUNCTIONS = {
    f.__name__: f
    for f in (
        rotate, encode_rows, append_keys, append_values, quantize_query, score_keys, score_keys_f32,
        sum_values, sum_values_f32, score_f16, sum_f16, attend_packed, attend_half, merge_states,
        softmax, linear,
    )
}  # fmt: skip
