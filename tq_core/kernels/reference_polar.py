"""The numpy twins of PolarQuant's kernels; math/polar_pages.py has the layout and the order of products.

The stream of the scales holds the radii, float16, 128 of a block after those of the block before.
"""

from __future__ import annotations

import numpy as np

from tq_core.kernels.reference_pages import pages_of
from tq_core.math import lanes
from tq_core.math.polar import BLOCK
from tq_core.math.polar_pages import BLOCK_BYTES, GROUPS, POLAR_TOKENS, coordinates, unpack_codes


def polar_rows(pool, page, layout, kv_head, head_dim, keys, angles):
    """(128, head_dim) float32 coordinates of one page and KV head."""
    blocks = head_dim // BLOCK
    _, page_bytes, header_bytes, head_bytes, *offsets = (int(v) for v in layout)
    base = int(page) * page_bytes + header_bytes + kv_head * head_bytes
    scale_at, code_at = offsets[:2] if keys else offsets[2:4]
    radii = (
        pool[base + scale_at :][: 2 * POLAR_TOKENS * blocks].view(np.float16).reshape(blocks, POLAR_TOKENS)
    )
    codes = pool[base + code_at :][: BLOCK_BYTES * blocks].reshape(blocks, BLOCK_BYTES)
    return coordinates(unpack_codes(codes), radii.T.astype(np.float32), angles)


def score_polar(*, query, angles, pages, layout, pool, scores, n_kv_heads, n_tokens, offset, scale):
    """Inner products in float32: two neighbouring channels' products are added, then these sums in order."""
    group = query.shape[0] // n_kv_heads
    for page, start, count in pages_of(pages, layout, n_tokens):
        columns = slice(offset + start, offset + start + count)
        for h in range(n_kv_heads):
            x = polar_rows(pool, page, layout, h, query.shape[1], True, angles)[:count]
            for q in range(h * group, (h + 1) * group):
                total = np.zeros(count, np.float32)
                for j in range(0, query.shape[1], 2):
                    total = total + (query[q, j] * x[:, j] + query[q, j + 1] * x[:, j + 1])
                scores[q, columns] = total * np.float32(scale)


def sum_polar(*, weights, angles, pages, layout, pool, out, n_kv_heads, n_tokens, offset):
    """Add sum_t weights[t] * v[t] to out: lane t % 16 of a page's tokens in order, lanes folded once per page."""
    group = weights.shape[0] // n_kv_heads
    for page, start, count in pages_of(pages, layout, n_tokens):
        for h in range(n_kv_heads):
            x = polar_rows(pool, page, layout, h, out.shape[1], False, angles).reshape(
                GROUPS, lanes.LANES, -1
            )
            for q in range(h * group, (h + 1) * group):
                w = np.zeros(POLAR_TOKENS, np.float32)
                w[:count] = weights[q, offset + start : offset + start + count]
                acc = np.zeros(x.shape[1:], np.float32)
                for g in range(-(-count // lanes.LANES)):
                    acc = acc + w.reshape(GROUPS, lanes.LANES, 1)[g] * x[g]
                out[q] = out[q] + lanes.fold(acc.T)
