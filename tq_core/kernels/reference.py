"""The numpy backend: what every kernel must compute, bit for bit.

One function per entry of the table, with the table's argument names. They are written to be read,
and to fix the order of every rounding; the C++ kernels are checked against them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tq_core.kernels.reference_pages import (
    centre_score,
    half_rows,
    half_tokens,
    head_parts,
    key_centre,
    page_codes,
    pages_of,
    runs,
    steps_of,
)
from tq_core.math import lanes, tiles
from tq_core.math.books import Books
from tq_core.math.hadamard import transform
from tq_core.math.pairs import join_pairs
from tq_core.math.quantize import NormMode, quantize_symmetric
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


def _centred(rows, pages, layout, pool, kv_head, first, centre_tokens):
    """rows (n, head_dim) less the centre of each one's page.

    A page's centre is the mean of its first ``centre_tokens`` rows, added in token order and rounded to float16; it is
    written as they are appended. n and first are multiples of centre_tokens, so it never depends on how rows are cut
    into calls.
    """
    out = rows.copy()
    for i in range(0, len(rows), centre_tokens):
        page, slot = divmod(first + i, int(layout[0]))
        centre, part = (
            key_centre(pool, pages[page], layout, kv_head, rows.shape[1]),
            slice(i, i + centre_tokens),
        )
        if slot == 0:
            total = np.zeros(rows.shape[1], np.float32)
            for row in rows[part]:
                total = total + row
            centre[:] = total * (np.float32(1) / np.float32(centre_tokens))
        out[part] = rows[part] - centre.astype(np.float32)
    return out


def _append(
    keys, *, x, signs, hadamard, widths, levels, book_scale, boundaries, pages, layout, pool, norm_mode, first,
    centre_tokens=0,
):  # fmt: skip
    books = Books(levels, book_scale, boundaries)
    page_tokens = int(layout[0])
    for h in range(x.shape[1]):
        rows = x[:, h]
        if centre_tokens:
            rows = _centred(rows, pages, layout, pool, h, first, centre_tokens)
        codes, scales = encode(rows, signs, hadamard, widths, books, NormMode(norm_mode))
        codes = join_pairs(codes, widths)
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
    """Encode (n, n_kv_heads, head_dim) keys into slots first, first + 1, ... of the block table's pages.

    With centre_tokens above 0, each page's keys are stored without their centre; see ``_centred``.
    """
    _append(True, **arguments)


def append_values(**arguments):
    """The same for values, whose tiles have channels in lanes."""
    _append(False, **arguments)


def quantize_query(*, x, query, step, scale, limit):
    """Rotated queries to integers of magnitude at most limit; step carries ``scale`` (the softmax scale) along."""
    integers, steps = quantize_symmetric(x, np.float32(limit))
    query[:] = integers
    step[:] = steps * np.float32(scale)


def score_keys(
    *,
    query,
    step,
    centre_query,
    widths,
    levels,
    book_scale,
    pages,
    layout,
    pool,
    scores,
    n_kv_heads,
    n_tokens,
    offset,
):
    """Exact integer inner products over the codes; one float32 rounding per width, then the scales.

    Where keys are centred (centre_query has channels), the score of the page's centre follows, in float32: integers of
    the query would carry their rounding into it, times the length of the centre.
    """
    group = query.shape[0] // n_kv_heads
    for page, start, count in pages_of(pages, layout, n_tokens):
        columns = slice(offset + start, offset + start + count)
        for h in range(n_kv_heads):
            key_scale, codes = page_codes(pool, page, layout, h, widths, True, count)
            steps = steps_of(codes, widths, levels)
            for q in range(h * group, (h + 1) * group):
                total = np.zeros(count, np.float32)
                for row, span in runs(widths):
                    exact = steps[:, span] @ query[q, span].astype(np.int64)
                    total = total + exact.astype(np.float32) * book_scale[row]
                scores[q, columns] = (total * key_scale) * step[q]
                shift = centre_score(pool, page, layout, h, centre_query[q])
                if shift is not None:
                    scores[q, columns] = scores[q, columns] + shift


def score_keys_f32(
    *, query, centre_query, widths, levels, book_scale, pages, layout, pool, scores, n_kv_heads, n_tokens, offset, scale
):  # fmt: skip
    """The same scores in float32: tokens in lanes, channels added one after the other."""
    group = query.shape[0] // n_kv_heads
    for page, start, count in pages_of(pages, layout, n_tokens):
        columns = slice(offset + start, offset + start + count)
        for h in range(n_kv_heads):
            key_scale, codes = page_codes(pool, page, layout, h, widths, True, count)
            centroids = _centroids(codes, widths, levels, book_scale)
            for q in range(h * group, (h + 1) * group):
                total = np.zeros(count, np.float32)
                for j in range(query.shape[1]):
                    total = total + query[q, j] * centroids[:, j]
                scores[q, columns] = (total * key_scale) * np.float32(scale)
                shift = centre_score(pool, page, layout, h, centre_query[q])
                if shift is not None:
                    scores[q, columns] = scores[q, columns] + shift


def _centroids(codes, widths, levels, book_scale):
    out = steps_of(codes, widths, levels).astype(np.float32)
    for row, span in runs(widths):
        out[:, span] = out[:, span] * book_scale[row]
    return out


def sum_values(
    *, weights, widths, levels, book_scale, pages, layout, pool, out, n_kv_heads, n_tokens, offset
):
    """Add sum_t weights[t] * v_hat[t] (rotated basis) to out: exact integers within a page, pages in order.

    Weights, not negative, are multiplied by the token's scale and quantized to integers per page.
    """
    group = weights.shape[0] // n_kv_heads
    for page, start, count in pages_of(pages, layout, n_tokens):
        columns = slice(offset + start, offset + start + count)
        for h in range(n_kv_heads):
            value_scale, codes = page_codes(pool, page, layout, h, widths, False, count)
            steps = steps_of(codes, widths, levels)
            for q in range(h * group, (h + 1) * group):
                integers, unit = quantize_symmetric(weights[q, columns] * value_scale)
                exact = (integers.astype(np.int64) @ steps).astype(np.float32)
                for row, span in runs(widths):
                    out[q, span] = out[q, span] + exact[span] * (unit * book_scale[row])


def sum_values_f32(
    *, weights, widths, levels, book_scale, pages, layout, pool, out, n_kv_heads, n_tokens, offset
):
    """The same in float32: channels in lanes, tokens added one after the other."""
    group = weights.shape[0] // n_kv_heads
    for page, start, count in pages_of(pages, layout, n_tokens):
        for h in range(n_kv_heads):
            value_scale, codes = page_codes(pool, page, layout, h, widths, False, count)
            centroids = _centroids(codes, widths, levels, book_scale)
            for q in range(h * group, (h + 1) * group):
                for t in range(count):
                    weight = weights[q, offset + start + t] * value_scale[t]
                    out[q] = out[q] + weight * centroids[t]


def score_f16(*, query, pages, layout, pool, scores, n_kv_heads, n_tokens, offset, first, scale):
    """Scores against keys stored as float16 rows, from logical slot ``first`` on."""
    group = query.shape[0] // n_kv_heads
    for page, slot, i in half_tokens(pages, layout, first, n_tokens):
        for h in range(n_kv_heads):
            key = half_rows(pool, page, layout, h, query.shape[1], True)[slot].astype(np.float32)
            rows = slice(h * group, (h + 1) * group)
            scores[rows, offset + i] = lanes.dot(query[rows], key) * np.float32(scale)


def sum_f16(*, weights, pages, layout, pool, out, n_kv_heads, n_tokens, offset, first):
    """Add sum_t weights[t] * v[t] over float16 rows to out, one token after the other."""
    group = weights.shape[0] // n_kv_heads
    for page, slot, i in half_tokens(pages, layout, first, n_tokens):
        for h in range(n_kv_heads):
            value = half_rows(pool, page, layout, h, out.shape[1], False)[slot].astype(np.float32)
            for q in range(h * group, (h + 1) * group):
                out[q] = out[q] + weights[q, offset + i] * value


def softmax(*, scores, n_tokens):
    """Replace the first n_tokens columns of each row by their softmax."""
    if n_tokens:
        live = scores[:, :n_tokens]
        weights = lanes.exp_f32(live - live.max(axis=-1, keepdims=True))
        live[:] = weights * (np.float32(1) / lanes.lane_sum(weights))[:, None]


def linear(*, x, w, y):
    """y = x w^T, each entry an inner product in lane order."""
    y[:] = lanes.dot(x[:, None, :], w[None, :, :])
