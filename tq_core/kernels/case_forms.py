"""Arguments of parity cases over affine tiles and byte rows: random codes under every form that a codec uses."""

from __future__ import annotations

import numpy as np

from tq_core.kernels.case_inputs import GUARD, Arguments, rng_for
from tq_core.kernels.forms import BLOCK, AffineForm, ByteForm, Kind, Scaling, float_form
from tq_core.kernels.layout import PAGE_TOKENS, PageLayout
from tq_core.math.tiles import TILE_TOKENS, tile_bytes

# Kind, scaling, channels of a group (0: the whole row), first, second: int8, q8_0, q4_0, FlexGen, QServe at 4 and 8 bits.
INTEGERS: dict[str, tuple[Kind, Scaling, int, int, int]] = {
    "int8": (Kind.bytes, Scaling.step, 0, 128, 128),
    "q8_0": (Kind.bytes, Scaling.step, BLOCK, 128, 128),
    "q4_0": (Kind.nibbles, Scaling.step, BLOCK, 0, 8),
    "flexgen": (Kind.nibbles, Scaling.inverse, 64, 0, 0),
    "affine4": (Kind.nibbles, Scaling.minimum, 128, 0, 0),
    "qserve4": (Kind.nibbles, Scaling.zero, 0, 0, 0),
    "qserve8": (Kind.bytes, Scaling.zero, 0, 0, 0),
}
FLOATS = {"e4m3": (3, 7), "e5m2": (2, 15)}
BYTE_FORMATS = (*INTEGERS, *FLOATS)


def _byte_form(name: str, head_dim: int) -> tuple[ByteForm, int]:
    """A form, and the bytes of a head's block: blocks with their step in front for q8_0 and q4_0, else one array each."""
    if name in FLOATS:
        return float_form(*FLOATS[name], 0, head_dim), PAGE_TOKENS * head_dim
    kind, scaling, group, first, second = INTEGERS[name]
    per = 2 if kind == Kind.nibbles else 1
    group = group or -(-head_dim // BLOCK) * BLOCK
    groups = -(-head_dim // group)
    if name in ("q8_0", "q4_0"):
        block = 2 + group // per
        row = groups * block - (groups * group - head_dim) // per
        step = (0, row, block)
        return ByteForm(
            kind, scaling, head_dim, group, first, second, 2, row, block, *step
        ), PAGE_TOKENS * row
    row, halves = head_dim // per, 2 * groups
    at = PAGE_TOKENS * row + 6  # streams need not lie side by side
    minimum = at + PAGE_TOKENS * halves
    form = ByteForm(
        kind, scaling, head_dim, group, first, second, 0, row, group // per, at, halves, 2, minimum, halves, 2
    )
    return form, minimum + PAGE_TOKENS * halves


def _spread(pool: np.ndarray, at: int, row: int, group: int, groups: int, values: np.ndarray) -> None:
    raw = values.astype(np.float16).view(np.uint8).reshape(PAGE_TOKENS, groups, 2)
    np.lib.stride_tricks.as_strided(pool[at:], raw.shape, (row, group, 1))[:] = raw


def _asked(
    kernel: str, kv_heads: int, group: int, tokens: int, head_dim: int, rng: np.random.Generator
) -> Arguments:
    """What a scan is asked: queries and guarded scores, or weights and the sums so far."""
    heads, offset = kv_heads * group, 3
    columns = tokens + offset + 2
    span = {"n_kv_heads": kv_heads, "n_tokens": tokens, "offset": offset}
    rows = rng.standard_normal((heads, head_dim)).astype(np.float32)
    if kernel.startswith("score"):
        return {**span, "query": rows, "scores": np.full((heads, columns), GUARD), "scale": 0.125}
    weights = np.exp(3 * rng.standard_normal((heads, columns))).astype(np.float32)
    weights[:, offset + tokens // 2 :: 5] = 0
    return {**span, "weights": weights, "out": rows}


def _pool(
    layout: PageLayout, tokens: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Random bytes, a block table out of order, and where every head's block begins."""
    n_pages = -(-tokens // PAGE_TOKENS)
    pool = rng.integers(0, 256, (n_pages + 2) * layout.page_bytes, dtype=np.uint8)
    starts = [
        page * layout.page_bytes + 64 + head * layout.head_bytes
        for page in range(n_pages + 2)
        for head in range(layout.n_kv_heads)
    ]
    return pool, rng.permutation(n_pages + 2)[:n_pages].astype(np.uint32), starts


def scan_bytes(kernel: str, name: str, head_dim: int, kv_heads: int, group: int, tokens: int) -> Arguments:
    """Rows of a format; every code occurs, steps are of both signs and some subnormal or zero."""
    rng = rng_for(kernel, name, head_dim, kv_heads, group, tokens)
    form, block = _byte_form(name, head_dim)
    layout = PageLayout(kv_heads, PAGE_TOKENS, (("rows", block),))
    pool, pages, starts = _pool(layout, tokens, rng)
    for start in starts if form.scaling else ():
        step = rng.standard_normal((PAGE_TOKENS, form.groups))
        step[::7], step[3::11] = 6e-8, 0
        _spread(pool, start + form.step_at, form.step_row, form.step_group, form.groups, step)
        if form.scaling > Scaling.step:
            low = 3 * rng.standard_normal(step.shape)
            _spread(pool, start + form.minimum_at, form.minimum_row, form.minimum_group, form.groups, low)
    asked = _asked(kernel, kv_heads, group, tokens, form.padded, rng)
    return {**asked, "form": form.words, "pages": pages, "layout": layout.words, "pool": pool}


def scan_affine(
    kernel: str, bits: int, shared: int, head_dim: int, kv_heads: int, group: int, tokens: int
) -> Arguments:
    """Tiles whose steps and minima are shared by ``shared`` tokens (keys) or by at most that many channels (values)."""
    rng = rng_for(kernel, bits, shared, head_dim, kv_heads, group, tokens)
    while not kernel.startswith("score") and head_dim % shared:
        shared //= 2
    codes = tile_bytes([bits] * (head_dim // 16)) * (PAGE_TOKENS // TILE_TOKENS)
    halves = head_dim * PAGE_TOKENS // shared
    form = AffineForm(bits, shared, 0, codes, codes + 2 * halves)
    layout = PageLayout(kv_heads, PAGE_TOKENS, (("tiles", codes + 4 * halves),))
    pool, pages, starts = _pool(layout, tokens, rng)
    for start in starts:
        step, low = np.abs(rng.standard_normal(halves)), 3 * rng.standard_normal(halves)
        step[::7], step[3::11] = 6e-8, 0
        pool[start + codes :][: 4 * halves] = np.concatenate([step, low]).astype(np.float16).view(np.uint8)
    asked = _asked(kernel, kv_heads, group, tokens, head_dim, rng)
    return {**asked, "form": form.words, "pages": pages, "layout": layout.words, "pool": pool}


def saturated_affine(kernel: str, bits: int, head_dim: int) -> Arguments:
    """Every code and every integer at its largest."""
    made = scan_affine(kernel, bits, 32, head_dim, 1, 2, 128)
    form, one = AffineForm(*made["form"].tolist()), np.ones(1, np.float16).view(np.uint8)
    made["pool"][:] = 0xFF
    for page in range(made["pool"].size // int(made["layout"][1])):
        at = page * int(made["layout"][1]) + 64 + form.steps
        made["pool"][at:][: 4 * head_dim * PAGE_TOKENS // form.group] = np.resize(one, 4 * head_dim * PAGE_TOKENS // form.group)  # fmt: skip
    made["query" if kernel.startswith("score") else "weights"][:] = 1
    return made
