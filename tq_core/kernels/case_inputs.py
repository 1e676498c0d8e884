"""The arguments of parity cases, built afresh from a seed that is the case's own description.

Outputs are filled with a guard pattern, so that a kernel that writes too little shows.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from tq_core.kernels.layout import PAGE_TOKENS, PageLayout, centre_streams, code_streams, half_streams
from tq_core.math.books import load_books, widths_for
from tq_core.math.quantize import NormMode
from tq_core.math.rotation import StructuredRotation

GUARD = np.float32(-123.25)
Arguments = dict[str, Any]
Rate = float | str


def rng_for(*parts: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


def widths_of(rate: Rate, head_dim: int) -> np.ndarray:
    """Group widths of a rate; "pair 2.5" is that rate in pair codes."""
    if isinstance(rate, str):
        return widths_for(float(rate.removeprefix("pair ")), head_dim, "pair")
    return widths_for(rate, head_dim)


def _rotation(head_dim: int) -> Arguments:
    rotation = StructuredRotation(head_dim, seed=7)
    return {"signs": rotation.signs, "hadamard": rotation.hadamard}


def book_of(rate: Rate, head_dim: int, boundaries: bool = False) -> Arguments:
    books = load_books()
    out: Arguments = {"widths": widths_of(rate, head_dim), "levels": books.levels, "book_scale": books.scale}
    return {**out, "boundaries": books.boundaries} if boundaries else out


def nasty_vectors(n: int, head_dim: int, rng: np.random.Generator) -> np.ndarray:
    """(n, head_dim) float32 that starts with zeros, a constant, one-hot, an outlier, tiny, denormal and negative-zero rows."""
    x = rng.standard_normal((n, head_dim)).astype(np.float32) * np.float32(3)
    special = np.zeros((8, head_dim), np.float32)
    special[1] = 2.5
    special[2, head_dim // 3] = -4
    special[3] = x[0] if n else 0
    special[3, 0] = 3.0e4
    special[4] = np.float32(1e-6)
    special[5] = np.float32(1e-42)
    special[6] = -np.float32(0)
    special[7, ::2] = 6.0e4
    x[: len(special)] = special[:n]
    return x


def random_pool(layout: PageLayout, n_pages: int, rng: np.random.Generator, half: bool) -> np.ndarray:
    """A pool of random bytes: every code value occurs; scales and halves are finite, some subnormal."""
    pool = rng.integers(0, 256, n_pages * layout.page_bytes, dtype=np.uint8)
    streams = (
        {"key_codes", "value_codes"}
        if half
        else {"key_scales", "value_scales", "key_centres", "key_outer_scales"}
    )
    for page in range(n_pages):
        for head in range(layout.n_kv_heads):
            for stream in (name for name, _ in layout.streams if name in streams):
                view = layout.view(pool, page, head, stream).view(np.float16)
                values = rng.standard_normal(view.shape).astype(np.float16)
                if stream.endswith("scales"):
                    values = np.abs(values)
                values[::7] = np.float16(6e-8)
                view[:] = values
    return pool


def _paged(
    rate: Rate | None,
    head_dim: int,
    kv_heads: int,
    slots: int,
    rng: np.random.Generator,
    value_rate: Rate | None = None,
    centred: int = 0,
) -> Arguments:
    if rate is None:
        streams = half_streams("key", head_dim, 32) + half_streams("value", head_dim, 32)
        layout = PageLayout(kv_heads, 32, streams)
    else:
        widths = widths_of(rate, head_dim)
        value_widths = widths_of(value_rate or rate, head_dim)
        streams = code_streams("key", widths, PAGE_TOKENS) + code_streams("value", value_widths, PAGE_TOKENS)
        streams += centre_streams(head_dim) if centred else ()
        layout = PageLayout(kv_heads, PAGE_TOKENS, streams)
    n_pages = -(-slots // layout.page_tokens)
    pages = rng.permutation(n_pages + 2)[:n_pages].astype(np.uint32)
    return {
        "pages": pages,
        "layout": layout.words,
        "pool": random_pool(layout, n_pages + 2, rng, rate is None),
    }


def scan(
    kernel: str,
    rate: Rate | None,
    head_dim: int,
    kv_heads: int,
    group: int,
    tokens: int,
    centred: int = 0,
) -> Arguments:
    rng = rng_for(kernel, rate, head_dim, kv_heads, group, tokens)
    first = 5 if rate is None else 0
    heads, offset = kv_heads * group, 3
    columns = tokens + offset + 2
    a = _paged(rate, head_dim, kv_heads, tokens + first, rng, centred=centred)
    a |= {"n_kv_heads": kv_heads, "n_tokens": tokens, "offset": offset}
    if rate is None:
        a["first"] = first
    else:
        a |= book_of(rate, head_dim)
    queries = rng.standard_normal((heads, head_dim)).astype(np.float32)
    if kernel in ("score_keys", "score_keys_f32"):
        a["centre_query"] = _centre_query(heads, head_dim, centred, rng)
    if kernel == "score_keys":
        a["query"] = rng.integers(-32639, 32640, (heads, head_dim)).astype(np.int16)
        a["query"][0], a["query"][-1] = 32639, -32639
        a["step"] = np.abs(queries[:, 0]) * np.float32(1e-3)
    elif kernel in ("score_keys_f32", "score_f16"):
        a |= {"query": queries, "scale": 0.125}
    else:
        weights = np.exp(3 * rng.standard_normal((heads, columns))).astype(np.float32)
        weights[:, offset + tokens // 2 :: 5] = 0
        return {**a, "weights": weights, "out": queries}
    return {**a, "scores": np.full((heads, columns), GUARD)}


def _centre_query(heads: int, head_dim: int, centred: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((heads, head_dim if centred else 0)).astype(np.float32)


def saturated(kernel: str, rate: Rate, head_dim: int) -> Arguments:
    """Every code and every multiplier at its largest, so that the integer sums come as near to 2^31 as they can."""
    a = scan(kernel, rate, head_dim, 1, 2, 33)
    a["pool"][:] = 0xFF
    for scales in ("key_scales", "value_scales"):
        streams = code_streams("key", a["widths"], PAGE_TOKENS) + code_streams(
            "value", a["widths"], PAGE_TOKENS
        )
        layout = PageLayout(1, PAGE_TOKENS, streams)
        for page in range(a["pool"].size // layout.page_bytes):
            layout.view(a["pool"], page, 0, scales).view(np.float16)[:] = 1
    if kernel == "score_keys":
        a["query"][0], a["query"][1] = 32639, -32639
    else:
        a["weights"][:] = 1
    return a


def append(
    kernel: str, rate: Rate, head_dim: int, tokens: int, first: int, mode: NormMode, centre_tokens: int = 0
) -> Arguments:
    rng = rng_for(kernel, rate, head_dim, tokens, first)
    a = (
        _paged(rate, head_dim, 3, tokens + first, rng, centred=centre_tokens)
        | _rotation(head_dim)
        | book_of(rate, head_dim, boundaries=True)
    )
    x = nasty_vectors(tokens * 3, head_dim, rng).reshape(tokens, 3, head_dim)
    if kernel == "append_keys":
        a["centre_tokens"] = centre_tokens
    return {**a, "x": x, "first": first, "norm_mode": int(mode)}


def rotate(head_dim: int, n: int, inverse: int) -> Arguments:
    x = nasty_vectors(n, head_dim, rng_for("rotate", head_dim, n))
    return {**_rotation(head_dim), "x": x, "y": np.full_like(x, GUARD), "inverse": inverse, "scale": 0.37}


def encode(rate: Rate, head_dim: int, mode: NormMode) -> Arguments:
    x = nasty_vectors(37, head_dim, rng_for("encode", rate, head_dim))
    out = {"codes": np.full(x.shape, 0xAA, np.uint8), "scales": np.full(len(x), 0xAAAA, np.uint16)}
    return {
        **_rotation(head_dim),
        **book_of(rate, head_dim, boundaries=True),
        "x": x,
        **out,
        "norm_mode": int(mode),
    }


def query(head_dim: int, n: int, limit: int) -> Arguments:
    x = nasty_vectors(n, head_dim, rng_for("query", head_dim, n))
    return {
        "x": x,
        "query": np.full(x.shape, -21846, np.int16),
        "step": np.full(n, GUARD),
        "scale": 0.125,
        "limit": limit,
    }


def attend(
    kernel: str,
    key_rate: Rate | None,
    value_rate: Rate,
    head_dim: int,
    kv_heads: int,
    group: int,
    tokens: int,
    small: int,
    first: int = 0,
    centred: int = 0,
) -> Arguments:
    """A state that starts empty for even query heads and part-way for odd ones."""
    rng = rng_for(kernel, key_rate, value_rate, head_dim, kv_heads, group, tokens, small)
    heads = kv_heads * group
    a = _paged(key_rate, head_dim, kv_heads, tokens + first, rng, value_rate, centred)
    a |= {"n_kv_heads": kv_heads, "n_tokens": tokens, "first": first}
    state = rng.standard_normal((heads, head_dim)).astype(np.float32)
    a |= {"peak": state[:, 0].copy(), "total": np.abs(state[:, 1]), "out": state}
    a["peak"][::2], a["total"][::2], a["out"][::2] = -np.inf, 0, 0
    if key_rate is None:
        query = 2 * rng.standard_normal((heads, head_dim))
        return {**a, "query": query.astype(np.float32), "scale": 0.125}
    books, limit = load_books(), 127 if small else 32639
    return {
        **a,
        "query": rng.integers(-limit, limit + 1, (heads, head_dim)).astype(np.int16),
        "centre_query": _centre_query(heads, head_dim, centred, rng),
        "step": (0.3 / limit * rng.uniform(0.5, 2, heads)).astype(np.float32),
        "key_widths": widths_of(key_rate, head_dim),
        "value_widths": widths_of(value_rate, head_dim),
        "levels": books.levels,
        "book_scale": books.scale,
        "small": small,
    }


def attend_each(
    kernel: str, key_rate: Rate | None, value_rate: Rate, head_dim: int, kv_heads: int, group: int, tokens: int,
    queries: int, small: int, centred: int = 0,
) -> Arguments:  # fmt: skip
    """``attend`` for ``queries`` tokens: one slot more for each, every third from a later first slot, the last without any."""
    one = kernel.removesuffix("_each")
    a = attend(one, key_rate, value_rate, head_dim, kv_heads, queries * group, tokens, small, 0, centred)
    ends = np.maximum(tokens - np.arange(queries)[::-1], 0)
    firsts = np.where(np.arange(queries) % 3 == 1, ends // 2, 0)
    counts = ends - firsts
    if queries > 1:
        counts[-1] = 0
    spans = np.stack([firsts, counts], axis=1).astype(np.uint32)
    return {k: v for k, v in a.items() if k not in ("n_tokens", "first")} | {"spans": spans}


def merge(parts: int, heads: int, head_dim: int, sinks: int) -> Arguments:
    """Sinks: of a head that has seen nothing, far above and far below the others' peaks, and none (minus infinity)."""
    outs = nasty_vectors(parts * heads, head_dim, rng_for("merge", parts, heads)).reshape(
        parts, heads, head_dim
    )
    peaks, totals = outs[..., 1].copy(), np.abs(outs[..., 2])
    outs[:, 0], peaks[:, 0], totals[:, 0] = 0, -np.inf, 0  # a head that has seen nothing
    outs[0], peaks[0], totals[0] = 0, -np.inf, 0  # a part that is empty
    sink = np.resize(np.array([0.5, 90, -90, -np.inf, 1], np.float32), (sinks, heads))
    return {
        "peaks": peaks,
        "totals": totals,
        "outs": outs,
        "sink": sink,
        "y": np.full((heads, head_dim), GUARD),
    }


def softmax(n_tokens: int, rows: int, spread: float) -> Arguments:
    scores = (spread * rng_for("softmax", n_tokens, spread).standard_normal((rows, n_tokens + 3))).astype(
        np.float32
    )
    return {"scores": scores, "n_tokens": n_tokens}


def linear(n: int, inputs: int, outputs: int) -> Arguments:
    rng = rng_for("linear", n, inputs, outputs)
    x, w = nasty_vectors(n, inputs, rng), rng.standard_normal((outputs, inputs)).astype(np.float32)
    return {"x": x, "w": w, "y": np.full((n, outputs), GUARD)}
