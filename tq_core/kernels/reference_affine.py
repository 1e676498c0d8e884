"""The numpy twins over affine tiles (KIVI, 2402.02750): x = code * step + minimum, in groups of tokens or channels.

The step is multiplied into the query (keys) or the weights (values), which then become integers as everywhere in the
kernels, so that the inner loop is an exact sum over codes. Codes are taken as 2 c - (2^b - 1), around the middle of their
range, and the middle goes with the minimum: what the rounding of the integers is multiplied by stays small.
"""

from __future__ import annotations

import numpy as np

from tq_core.kernels.forms import AffineForm
from tq_core.kernels.reference_pages import RUN_GROUPS, pages_of
from tq_core.math import lanes, tiles
from tq_core.math.quantize import quantize_symmetric

HALF = np.float32(0.5)


def _parts(pool, page, layout, kv_head, form, head_dim, keys, affine_shape):
    """Doubled codes around zero (page_tokens, head_dim) int64; steps and middles of the range, float32."""
    page_tokens, page_bytes, header_bytes, head_bytes = (int(v) for v in layout[:4])
    block = pool[int(page) * page_bytes + header_bytes + kv_head * head_bytes :][:head_bytes]
    widths = np.full(head_dim // tiles.TILE_CHANNELS, form.bits, np.uint8)
    code_bytes = tiles.tile_bytes(widths) * (page_tokens // tiles.TILE_TOKENS)
    codes = tiles.unpack_stream(block[form.codes :][:code_bytes], widths, keys)
    nbytes = 2 * int(np.prod(affine_shape))
    step, low = (
        block[at:][:nbytes].view(np.float16).astype(np.float32).reshape(affine_shape)
        for at in (form.steps, form.minima)
    )
    top = (1 << form.bits) - 1
    return 2 * codes.astype(np.int64) - top, step, low + step * np.float32(top / 2)


def score_affine(*, query, form, pages, layout, pool, scores, n_kv_heads, n_tokens, offset, scale):
    """Scores against keys with a step and a minimum per channel for every ``group`` tokens."""
    form, d, page_tokens = AffineForm(*form.tolist()), query.shape[1], int(layout[0])
    group, shape = query.shape[0] // n_kv_heads, (page_tokens // form.group, d)
    for page, start, count in pages_of(pages, layout, n_tokens):
        for h in range(n_kv_heads):
            codes, steps, middles = _parts(pool, page, layout, h, form, d, True, shape)
            for first in range(0, count, form.group):
                slots = slice(first, min(first + form.group, count))
                at = slice(offset + start + first, offset + start + slots.stop)
                step, middle = steps[first // form.group], middles[first // form.group]
                for q in range(h * group, (h + 1) * group):
                    integers, unit = quantize_symmetric(query[q] * step)
                    total = np.zeros(slots.stop - first, np.float32)
                    for c in range(0, d, 16 * RUN_GROUPS):  # what one integer sum covers
                        span = slice(c, c + 16 * RUN_GROUPS)
                        exact = codes[slots, span] @ integers[span].astype(np.int64)
                        total = total + exact.astype(np.float32) * HALF
                    scores[q, at] = (total * unit + lanes.dot(query[q], middle)) * np.float32(scale)


def sum_affine(*, weights, form, pages, layout, pool, out, n_kv_heads, n_tokens, offset):
    """Add sum_t weights[t] * v[t] to out, values with a step and a minimum per token for every ``group`` channels.

    Weights are quantized per page and group of channels.
    """
    form, d, page_tokens = AffineForm(*form.tolist()), out.shape[1], int(layout[0])
    group, shape = weights.shape[0] // n_kv_heads, (page_tokens, d // form.group)
    for page, start, count in pages_of(pages, layout, n_tokens):
        columns = slice(offset + start, offset + start + count)
        for h in range(n_kv_heads):
            codes, steps, middles = _parts(pool, page, layout, h, form, d, False, shape)
            for g in range(d // form.group):
                span = slice(g * form.group, (g + 1) * form.group)
                step, middle = steps[:count, g], middles[:count, g]
                for q in range(h * group, (h + 1) * group):
                    weight = weights[q, columns]
                    integers, unit = quantize_symmetric(weight * step)
                    exact = (integers.astype(np.int64) @ codes[:count, span]).astype(np.float32)
                    out[q, span] = (out[q, span] + exact * (unit * HALF)) + lanes.dot(weight, middle)
