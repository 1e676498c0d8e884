"""The numpy twins over byte rows: a row is decoded in float32, then scored or added as float16 rows are.

Decoding is exact but for the step and the minimum, and does not touch the query, so that the controls are read as their
authors store them. One decoded row serves all query heads of its KV head.
"""

from __future__ import annotations

import numpy as np

from tq_core.kernels.forms import BLOCK, ByteForm, Kind, Scaling
from tq_core.kernels.reference_pages import pages_of
from tq_core.math import lanes


def _strided(block, at, row, group, shape, nbytes):
    """(rows, groups, nbytes) view of bytes that lie ``row`` and ``group`` apart."""
    rows, groups = shape
    return np.lib.stride_tricks.as_strided(
        block[at:], (rows, groups, nbytes), (row, group, 1), writeable=False
    )


def _halves(block, form, label, shape):
    at, row, group = (getattr(form, f"{label}_{place}") for place in ("at", "row", "group"))
    raw = np.ascontiguousarray(_strided(block, at, row, group, shape, 2))
    return raw.view(np.float16).astype(np.float32)


def floats8(codes, shift, power):
    """8-bit floats to float32, exact, subnormals included; codes of infinities and NaN are read as further numbers."""
    bits = codes.astype(np.uint32)
    magnitude = ((bits & 127) << np.uint32(shift)).view(np.float32) * np.float32(2.0**power)
    return (magnitude.view(np.uint32) | (bits & 128) << np.uint32(24)).view(np.float32)


def _codes(stored, form):
    """Stored bytes of one group (rows, bytes) as numbers (rows, channels), nibbles in whole blocks."""
    if form.kind == Kind.floats:
        return floats8(stored, form.first, form.second)
    if form.kind == Kind.nibbles:
        rows, tail = len(stored), -stored.shape[1] % (BLOCK // 2)
        blocks = np.pad(stored, ((0, 0), (0, tail))).reshape(rows, -1, BLOCK // 2)
        stored = np.stack([blocks & 15, blocks >> 4], axis=2).reshape(rows, -1)
    return ((stored.astype(np.int32) ^ form.first) - form.second).astype(np.float32)


def _scales(block, form, count):
    """Steps and what is added after them, (count, groups, 1) float32 each; None where there is none."""
    shape = (count, form.groups)
    if form.scaling == Scaling.none:
        return None, None
    step = _halves(block, form, "step", shape)
    if form.scaling == Scaling.step:
        return step, None
    low = _halves(block, form, "minimum", shape)
    if form.scaling == Scaling.inverse:
        return np.float32(1) / np.where(step > 0, step, np.float32(1)), low
    return step, np.float32(0) - low * step if form.scaling == Scaling.zero else low


def byte_rows(block, form, count):
    """(count, form.padded) float32: the first rows of a head's block."""
    out = np.empty((count, form.padded), np.float32)
    step, low = _scales(block, form, count)
    for g in range(form.groups):
        at = form.code_at + g * form.code_group
        stored = _strided(block, at, form.code_row, 0, (count, 1), form.code_bytes(g))[:, 0]
        values = _codes(stored, form)
        if step is not None:
            values = values * step[:, g]
        if low is not None:
            values = values + low[:, g]
        out[:, g * form.group :][:, : values.shape[1]] = values
    return out


def _blocks(pages, layout, pool, n_kv_heads, n_tokens):
    """(KV head, first token, tokens, the head's block) page by page."""
    _, page_bytes, header_bytes, head_bytes = (int(v) for v in layout[:4])
    for page, start, count in pages_of(pages, layout, n_tokens):
        for h in range(n_kv_heads):
            at = int(page) * page_bytes + header_bytes + h * head_bytes
            yield h, start, count, pool[at : at + head_bytes]


def score_bytes(*, query, form, pages, layout, pool, scores, n_kv_heads, n_tokens, offset, scale):
    """scale * <query, key> of every row, in lane order."""
    form, group = ByteForm(*form.tolist()), query.shape[0] // n_kv_heads
    for h, start, count, block in _blocks(pages, layout, pool, n_kv_heads, n_tokens):
        rows = byte_rows(block, form, count)
        heads = slice(h * group, (h + 1) * group)
        columns = slice(offset + start, offset + start + count)
        scores[heads, columns] = lanes.dot(query[heads, None], rows[None]) * np.float32(scale)


def sum_bytes(*, weights, form, pages, layout, pool, out, n_kv_heads, n_tokens, offset):
    """Add sum_t weights[t] * row_t to out, one token after the other."""
    form, group = ByteForm(*form.tolist()), weights.shape[0] // n_kv_heads
    for h, start, count, block in _blocks(pages, layout, pool, n_kv_heads, n_tokens):
        rows, heads = byte_rows(block, form, count), slice(h * group, (h + 1) * group)
        for t in range(count):
            out[heads] = out[heads] + weights[heads, offset + start + t, None] * rows[t]
