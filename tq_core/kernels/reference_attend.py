"""The numpy twins of the decode step: softmax states carried from page to page, and their merging.

Logits are in units of log 2: weights are powers of two, and callers multiply the softmax scale by log2 e.
"""

from __future__ import annotations

import numpy as np

from tq_core.kernels.reference import score_keys
from tq_core.kernels.reference_pages import half_rows, page_codes, page_spans, runs, steps_of
from tq_core.math import lanes
from tq_core.math.quantize import QUERY_MAX, SMALL_MAX, quantize_symmetric

LOWEST = np.float32(-3.0e38)


def _soften(scores, peak, total):
    """Weights 2^(score - peak) of one part of the history, with the state (peak, total) moved on, and the shrink factor."""
    # + 0: whether the largest score is a negative zero depends on the order of comparison.
    new_peak = np.maximum(peak, scores.max() + np.float32(0))
    shrink = lanes.exp2_f32(peak - new_peak)
    weights = lanes.exp2_f32(scores - new_peak)
    return weights, new_peak, total * shrink + lanes.lane_sum(weights), shrink


def attend_packed(
    *,
    query,
    step,
    centre_query,
    key_widths,
    value_widths,
    levels,
    book_scale,
    pages,
    layout,
    pool,
    peak,
    total,
    out,
    n_kv_heads,
    n_tokens,
    first,
    small,
):
    """Move each head's softmax state over slots first, first + 1, ... of packed pages, page by page.

    Exact integer scores, exact integer sums. Pages that end before ``first`` are not read. In the page that holds
    it, the slots before get weight 0 in their own lanes: peak, integer weights and sums have the bits that they would
    have without those slots, and so has total when ``first`` is a multiple of 16; else its lanes are shifted.
    """
    group, limit = query.shape[0] // n_kv_heads, SMALL_MAX if small else QUERY_MAX
    for page, low, count in page_spans(pages, layout, first, n_tokens):
        scores = np.empty((query.shape[0], count), np.float32)
        score_keys(
            query=query, step=step, centre_query=centre_query, widths=key_widths, levels=levels, book_scale=book_scale, pages=[page], layout=layout,
            pool=pool, scores=scores, n_kv_heads=n_kv_heads, n_tokens=count, offset=0,
        )  # fmt: skip
        scores[:, :low] = LOWEST
        for q in range(query.shape[0]):
            value_scale, codes = page_codes(pool, page, layout, q // group, value_widths, False, count)
            weights, peak[q], total[q], shrink = _soften(scores[q], peak[q], total[q])
            integers, unit = quantize_symmetric(weights * value_scale, limit)
            exact = (integers.astype(np.int64) @ steps_of(codes, value_widths, levels)).astype(np.float32)
            for row, span in runs(value_widths):
                out[q, span] = out[q, span] * shrink + exact[span] * (unit * book_scale[row])


def attend_half(*, query, pages, layout, pool, peak, total, out, n_kv_heads, n_tokens, first, scale):
    """Move each head's softmax state over float16 rows, page by page, sums in token order."""
    group = query.shape[0] // n_kv_heads
    for page, low, high in page_spans(pages, layout, first, n_tokens):
        slots = slice(low, high)
        for q in range(query.shape[0]):
            keys = half_rows(pool, page, layout, q // group, query.shape[1], True)[slots].astype(np.float32)
            values = half_rows(pool, page, layout, q // group, query.shape[1], False)[slots].astype(
                np.float32
            )
            scores = lanes.dot(query[q], keys) * np.float32(scale)
            weights, peak[q], total[q], shrink = _soften(scores, peak[q], total[q])
            out[q] = out[q] * shrink
            for t in range(high - low):
                out[q] = out[q] + weights[t] * values[t]


def _each(attend, spans, query, peak, total, out, **shared):
    """``attend`` for the rows of one token after the other, each with its own span; pages are shared."""
    heads = query.shape[0] // len(spans)
    sliced = {name: shared.pop(name) for name in ("step", "centre_query") if name in shared}
    for i, (first, n_tokens) in enumerate(spans.tolist()):
        rows = slice(i * heads, (i + 1) * heads)
        own = {name: array[rows] for name, array in sliced.items()}
        attend(
            query=query[rows], peak=peak[rows], total=total[rows], out=out[rows],
            first=first, n_tokens=n_tokens, **own, **shared,
        )  # fmt: skip


def attend_packed_each(**arguments):
    """``attend_packed`` for several tokens: token i has q / t query heads and slots spans[i, 0] .. + spans[i, 1] - 1."""
    _each(attend_packed, **arguments)


def attend_half_each(**arguments):
    """``attend_half`` for several tokens, as above."""
    _each(attend_half, **arguments)


def merge_states(*, peaks, totals, outs, sink, y):
    """One output from the states of disjoint parts of the history, parts in order; zeros where all are empty.

    Each row of ``sink`` adds 2^logit to the denominators, after the parts, and nothing to the sums.
    """
    top = np.maximum(np.concatenate([peaks, sink]).max(axis=0), LOWEST)
    total, y[:] = np.zeros(peaks.shape[1], np.float32), 0
    for part in range(peaks.shape[0]):
        share = lanes.exp2_f32(peaks[part] - top)
        total = total + totals[part] * share
        y[:] = y + outs[part] * share[:, None]
    for logits in sink:
        total = total + lanes.exp2_f32(logits - top)
    with np.errstate(divide="ignore"):
        y[:] = y * np.where(total > 0, np.float32(1) / total, np.float32(0))[:, None]
