"""How the numpy twins read and write pages: scales, codes and float16 rows of one KV head."""

from __future__ import annotations

import numpy as np

from tq_core.math import lanes, tiles
from tq_core.math.books import book_rows
from tq_core.math.pairs import split_pairs


def head_parts(pool, page, layout, kv_head, widths, keys):
    """Writable views of one KV head's scales (page_tokens,) uint16 and packed codes in a page."""
    page_tokens, page_bytes, header_bytes, head_bytes, *offsets = (int(v) for v in layout)
    base = int(page) * page_bytes + header_bytes + kv_head * head_bytes
    scale_at, code_at = offsets[:2] if keys else offsets[2:4]
    scales = pool[base + scale_at :][: 2 * page_tokens].view(np.uint16)
    code_bytes = tiles.tile_bytes(widths) * (page_tokens // tiles.TILE_TOKENS)
    return scales, pool[base + code_at :][:code_bytes]


def page_codes(pool, page, layout, kv_head, widths, keys, count):
    """Scales (count,) float32 and level numbers (count, head_dim) of a page's first ``count`` slots."""
    scales, stream = head_parts(pool, page, layout, kv_head, widths, keys)
    codes = split_pairs(tiles.unpack_stream(stream, widths, keys)[:count], widths)
    return scales[:count].view(np.float16).astype(np.float32), codes


def key_centre(pool, page, layout, kv_head, head_dim):
    """Writable view of the float16 vector (head_dim,) that a page's keys are stored without."""
    _, page_bytes, header_bytes, head_bytes, *offsets = (int(v) for v in layout)
    base = int(page) * page_bytes + header_bytes + kv_head * head_bytes + offsets[4]
    return pool[base : base + 2 * head_dim].view(np.float16)


def centre_score(pool, page, layout, kv_head, centre_query):
    """The score that every key of the page lost with its centre; None where keys are not centred."""
    if not centre_query.size:
        return None
    centre = key_centre(pool, page, layout, kv_head, centre_query.size)
    return lanes.dot(centre_query, centre.astype(np.float32))


def pages_of(pages, layout, n_tokens):
    """(page, first token, tokens in it) over a block table."""
    page_tokens = int(layout[0])
    for i, page in enumerate(pages):
        start = i * page_tokens
        if start < n_tokens:
            yield page, start, min(page_tokens, n_tokens - start)


def page_spans(pages, layout, first, n_tokens):
    """(page, first slot, end slot) of every page with some of the slots first .. first + n_tokens - 1."""
    page_tokens, end = int(layout[0]), first + n_tokens
    for i in range(first // page_tokens, -(-end // page_tokens) if n_tokens else 0):
        start = i * page_tokens
        yield pages[i], max(first - start, 0), min(end - start, page_tokens)


RUN_GROUPS = 16  # 255 * 32639 * 256 channels is the largest sum of whole groups that an int32 holds


def runs(widths):
    """(book row, channels) of each run of at most 256 channels coded alike: what one integer sum covers.

    Pair codes give two runs, the first coordinates of 8 pairs of groups at most and then the second ones.
    """
    widths, rows = [int(w) for w in widths], book_rows(widths)
    kinds = [w or widths[i - 1] for i, w in enumerate(widths)]  # a pair's bits at both of its groups
    edges = [0]
    for i in range(1, len(widths)):
        if kinds[i] != kinds[i - 1] or i - edges[-1] == RUN_GROUPS:
            edges.append(i)
    for a, b in zip(edges, [*edges[1:], len(widths)]):
        if 0 not in widths[a:b]:
            yield rows[a], slice(16 * a, 16 * b)
            continue
        channels = np.arange(16 * a, 16 * b).reshape(-1, 2, 16)
        for half in (0, 1):
            yield rows[a + half], channels[:, half].reshape(-1)


def steps_of(codes, widths, levels):
    """Centroids as odd integers 2u - 255, (n, head_dim) int64."""
    out = np.empty(codes.shape, np.int64)
    for row, span in runs(widths):
        out[:, span] = 2 * levels[row][codes[:, span]].astype(np.int64) - 255
    return out


def half_rows(pool, page, layout, kv_head, head_dim, keys):
    page_tokens, page_bytes, header_bytes, head_bytes, *offsets = (int(v) for v in layout)
    base = int(page) * page_bytes + header_bytes + kv_head * head_bytes + offsets[1 if keys else 3]
    rows = pool[base : base + 2 * page_tokens * head_dim].view(np.float16)
    return rows.reshape(page_tokens, head_dim)


def half_tokens(pages, layout, first, n_tokens):
    """(page, slot, index) of tokens first .. first + n_tokens - 1."""
    for i in range(n_tokens):
        page, slot = divmod(first + i, int(layout[0]))
        yield pages[page], slot, i
