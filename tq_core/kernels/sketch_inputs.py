"""Arguments of the parity cases of the kernels for signs, sketches and PolarQuant; see case_inputs."""

from __future__ import annotations

import numpy as np

from tq_core.kernels.case_inputs import GUARD, Arguments, random_pool, rng_for
from tq_core.kernels.layout import PAGE_TOKENS, PageLayout
from tq_core.math.polar_pages import BLOCK_BYTES, cosine_table


def _paged(
    streams: tuple[tuple[str, int], ...], kv_heads: int, tokens: int, seed: tuple[object, ...]
) -> Arguments:
    rng = rng_for(*seed)
    layout = PageLayout(kv_heads, PAGE_TOKENS, streams)
    n_pages = -(-tokens // PAGE_TOKENS)
    pages = rng.permutation(n_pages + 2)[:n_pages].astype(np.uint32)
    pool = random_pool(layout, n_pages + 2, rng, False)
    return {
        "pages": pages,
        "layout": layout.words,
        "pool": pool,
        "n_kv_heads": kv_heads,
        "n_tokens": tokens,
        "offset": 3,
    }


def _outputs(a: Arguments, kernel: str, heads: int, head_dim: int, rng: np.random.Generator) -> Arguments:
    tokens, offset = a["n_tokens"], a["offset"]
    columns = tokens + offset + 2
    if kernel.startswith("score"):
        return {**a, "scores": np.full((heads, columns), GUARD)}
    weights = np.exp(3 * rng.standard_normal((heads, columns))).astype(np.float32)
    weights[:, offset + tokens // 2 :: 5] = 0
    return {**a, "weights": weights, "out": rng.standard_normal((heads, head_dim)).astype(np.float32)}


def signs(kernel: str, head_dim: int, kv_heads: int, group: int, tokens: int, add: int = 0) -> Arguments:
    """Random signs; the query's first head is at the largest integers, which signs of one kind add up."""
    side, heads = "key" if kernel == "score_signs" else "value", kv_heads * group
    rng = rng_for(kernel, head_dim, kv_heads, group, tokens)
    sizes = ((f"{side}_scales", 2 * PAGE_TOKENS), (f"{side}_codes", PAGE_TOKENS * head_dim // 8))
    a = _paged(sizes, kv_heads, tokens, (kernel, head_dim, tokens))
    for page in a["pages"][:1]:
        codes = PageLayout(kv_heads, PAGE_TOKENS, sizes).view(a["pool"], int(page), 0, f"{side}_codes")
        codes[: codes.size // 2] = 0xFF
    a = _outputs(a, kernel, heads, head_dim, rng)
    if kernel == "score_signs":
        a["query"] = rng.integers(-32639, 32640, (heads, head_dim)).astype(np.int16)
        a["query"][0], a["query"][-1] = 32639, -32639
        a["step"] = np.abs(rng.standard_normal(heads).astype(np.float32)) * np.float32(1e-3)
        a["add"] = add
    return a


def store(kernel: str, bits: tuple[int, ...], groups: int, tokens: int, first: int) -> Arguments:
    """Codes of all widths in turn into pages of random bytes, so that what is not theirs must stay."""
    side, widths = kernel.split("_")[1], np.resize(np.array(bits, np.uint8), groups)
    rng = rng_for(kernel, bits, groups, tokens, first)
    sizes = ((f"{side}_scales", 2 * PAGE_TOKENS), (f"{side}_codes", PAGE_TOKENS * 2 * int(widths.sum())))
    a = _paged(sizes, 3, tokens + first, (kernel, bits, groups))
    codes = rng.integers(0, 16, (tokens, 3, 16 * groups), dtype=np.uint8)
    return {
        **{name: a[name] for name in ("pages", "layout", "pool")},
        "codes": codes,
        "scales": rng.integers(0, 2**16, (tokens, 3), dtype=np.uint16),
        "widths": widths,
        "first": first,
    }


def sketch(
    head_dim: int, ratio: int, outer_ratio: int, kv_heads: int, group: int, tokens: int, outliers: int = 8
) -> Arguments:
    """Random projections and random indices, of which some lie beyond the last channel."""
    heads, rows, outer = kv_heads * group, ratio * head_dim, outer_ratio * head_dim
    rng = rng_for("score_sketch", head_dim, ratio, outer_ratio, kv_heads, group, tokens)
    index = outliers * (1 if head_dim <= 256 else 2)
    streams = (
        ("key_scales", 2 * PAGE_TOKENS),
        ("key_outer_scales", 2 * PAGE_TOKENS),
        ("key_outliers", index * PAGE_TOKENS // 32),
        ("key_codes", PAGE_TOKENS * rows // 8),
        ("key_outer_codes", PAGE_TOKENS * outer // 8),
    )
    a = _paged(streams, kv_heads, tokens, ("score_sketch", head_dim, tokens))
    at = PageLayout(kv_heads, PAGE_TOKENS, streams).offsets
    query = rng.standard_normal((heads, head_dim)).astype(np.float32)
    query[0] = 0
    return {
        **_outputs(a, "score_sketch", heads, head_dim, rng),
        "query": query,
        "sketched": rng.standard_normal((heads, rows)).astype(np.float32),
        "inner": rng.standard_normal((head_dim, rows)).astype(np.float32),
        "outer": rng.standard_normal((head_dim, outer)).astype(np.float32),
        "n_outliers": outliers,
        "outliers_at": at["key_outliers"],
        "outer_scales_at": at["key_outer_scales"],
        "outer_codes_at": at["key_outer_codes"],
        "inner_factor": 0.0123,
        "outer_factor": 0.0456,
    }


def polar(kernel: str, head_dim: int, kv_heads: int, group: int, tokens: int) -> Arguments:
    side, heads = "key" if kernel == "score_polar" else "value", kv_heads * group
    rng = rng_for(kernel, head_dim, kv_heads, group, tokens)
    blocks = head_dim // 16
    streams = ((f"{side}_scales", 2 * PAGE_TOKENS * blocks), (f"{side}_codes", BLOCK_BYTES * blocks))
    a = _paged(streams, kv_heads, tokens, (kernel, head_dim, tokens)) | {"angles": cosine_table()}
    a = _outputs(a, kernel, heads, head_dim, rng)
    if kernel == "score_polar":
        a |= {"query": rng.standard_normal((heads, head_dim)).astype(np.float32), "scale": 0.125}
    return a
