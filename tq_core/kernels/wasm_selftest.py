"""The known-answer test that a wasm backend passes before anyone gets it.

One small case per kernel, with the numpy backend's results as the answers, compared bit for bit. An
engine that compiles an instruction wrongly (``i8x16.swizzle`` is the one known) is refused here with
the kernel's name, instead of giving wrong scores later. The cases have partial tiles and pages, page
numbers out of order, and a head size that is no power of two. Every code width and every number of
query heads per pass occurs, since the compiler makes a copy of a kernel for each of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tq_core.errors import BackendError
from tq_core.kernels import case_forms, shape_inputs, sketch_inputs
from tq_core.kernels.backend import Backend, NumpyBackend
from tq_core.kernels.table import KERNELS
from tq_core.math.books import load_books
from tq_core.math.quantize import QUERY_MAX, NormMode
from tq_core.math.rotation import StructuredRotation
from tq_core.math.tiles import tile_bytes

Arguments = dict[str, Any]
_HEAD_DIM, _KV_HEADS, _PAGE_TOKENS, _TOKENS = 64, 2, 32, 41
_WIDTHS = (np.array([4, 3, 2, 2], np.uint8), np.array([5, 0, 7, 0], np.uint8))  # plain codes, pair codes
# Query heads per KV head. A pass takes at most four: 4 + 1, 4 + 2, 4 + 3.
_GROUP_SIZES = (5, 6, 7)
_SPAN = {"n_kv_heads": _KV_HEADS, "n_tokens": _TOKENS, "offset": 3}
_PAGES = np.array([2, 0], np.uint32)


def _rotation(head_dim: int) -> Arguments:
    rotation = StructuredRotation(head_dim, seed=7)
    return {"signs": rotation.signs, "hadamard": rotation.hadamard}


def _book(widths: np.ndarray) -> Arguments:
    books = load_books()
    return {"widths": widths, "levels": books.levels, "book_scale": books.scale}


def _layout(codes: int, scales: int, centre: int) -> np.ndarray:
    """A page of a 64-byte header, then per KV head keys and values, each scales and codes, and the keys' centre."""
    side = scales + codes
    block = 2 * side + centre
    offsets = (0, scales, side, side + scales, 2 * side)
    return np.array([_PAGE_TOKENS, 64 + _KV_HEADS * block, 64, block, *offsets], np.uint32)


def _state(draw: Any, query_heads: int) -> Arguments:
    """A softmax state that has seen something: peak, total and out of every query head."""
    return {
        "peak": draw(query_heads),
        "total": np.abs(draw(query_heads)),
        "out": draw(query_heads, _HEAD_DIM),
    }


def _coded_cases(draw: Any, run: Any, widths: np.ndarray) -> Iterator[tuple[str, Arguments]]:
    book, rotation = _book(widths), _rotation(_HEAD_DIM)
    quantizer = {
        **rotation,
        **book,
        "boundaries": load_books().boundaries,
        "norm_mode": int(NormMode.matched),
    }
    x = draw(_TOKENS, _HEAD_DIM)
    yield (
        "encode_rows",
        {
            "x": x,
            **quantizer,
            "codes": np.zeros((_TOKENS, _HEAD_DIM), np.uint8),
            "scales": np.zeros(_TOKENS, np.uint16),
        },
    )
    layout = _layout(tile_bytes(book["widths"]), 2 * _PAGE_TOKENS, 2 * _HEAD_DIM)
    pool = np.full(3 * int(layout[1]) + 5, 0x5A, np.uint8)
    paged = {"pages": _PAGES, "layout": layout}
    for name in ("append_keys", "append_values"):
        tokens = 2 * _PAGE_TOKENS if name == "append_keys" else _TOKENS
        appended = {"x": draw(tokens, _KV_HEADS, _HEAD_DIM), **quantizer, **paged, "first": 0}
        if name == "append_keys":
            appended["centre_tokens"] = _PAGE_TOKENS
        yield name, {**appended, "pool": pool.copy()}
        run(name, **appended, pool=pool)
    stored = {**book, **paged, "pool": pool, **_SPAN}
    for query_heads in (_KV_HEADS * size for size in _GROUP_SIZES):
        query, step = np.zeros((query_heads, _HEAD_DIM), np.int16), np.zeros(query_heads, np.float32)
        queries = {"x": draw(query_heads, _HEAD_DIM), "scale": 0.125, "limit": float(QUERY_MAX)}
        yield "quantize_query", {**queries, "query": query.copy(), "step": step.copy()}
        run("quantize_query", **queries, query=query, step=step)
        scores, out = draw(query_heads, _TOKENS + 5), draw(query_heads, _HEAD_DIM)
        weights = np.abs(draw(query_heads, _TOKENS + 5))
        asked = {**stored, "centre_query": queries["x"], "scores": scores}
        yield "score_keys", {**asked, "query": query, "step": step}
        yield "score_keys_f32", {**asked, "query": queries["x"], "scale": 0.125}
        yield "sum_values", {**stored, "weights": weights, "out": out}
        yield "sum_values_f32", {**stored, "weights": weights, "out": out}
        attended = {k: v for k, v in stored.items() if k not in ("widths", "offset")}
        attended |= {"key_widths": widths, "value_widths": widths, "query": query, "step": step}
        attended["centre_query"] = queries["x"]
        attended |= {"n_tokens": _TOKENS - 3, "first": 3, "small": 0}
        yield "attend_packed", {**attended, **_state(draw, query_heads)}
        yield "attend_packed_each", {**_each(attended), **_state(draw, query_heads)}


def _each(asked: Arguments) -> Arguments:
    """The same slots for the only token of a kernel that takes several."""
    span = np.array([[asked["first"], asked["n_tokens"]]], np.uint32)
    return {k: v for k, v in asked.items() if k not in ("first", "n_tokens")} | {"spans": span}


def _plain_cases(draw: Any) -> Iterator[tuple[str, Arguments]]:
    for inverse in (0, 1):
        x = draw(3, 48)
        yield "rotate", {"x": x, **_rotation(48), "y": np.zeros_like(x), "inverse": inverse, "scale": 0.25}
    layout = _layout(2 * _PAGE_TOKENS * _HEAD_DIM, 0, 0)
    pool = draw(3 * int(layout[1]) // 2).astype(np.float16).view(np.uint8)
    stored = {"pages": _PAGES, "layout": layout, "pool": pool, **_SPAN, "first": 9}
    query_heads = _KV_HEADS * _GROUP_SIZES[0]
    scores = draw(query_heads, _TOKENS + 5)
    yield "score_f16", {**stored, "query": draw(query_heads, _HEAD_DIM), "scores": scores, "scale": 0.125}
    yield "sum_f16", {**stored, "weights": np.abs(scores), "out": draw(query_heads, _HEAD_DIM)}
    half = {k: v for k, v in stored.items() if k != "offset"}
    half |= {"query": draw(query_heads, _HEAD_DIM), "scale": 0.125}
    yield "attend_half", {**half, **_state(draw, query_heads)}
    yield "attend_half_each", {**_each({**half, "n_tokens": _TOKENS}), **_state(draw, query_heads)}
    parts = {"peaks": draw(3, 5), "totals": np.abs(draw(3, 5)), "outs": draw(3, 5, 48), "sink": draw(1, 5)}
    yield "merge_states", {**parts, "y": np.zeros((5, 48), np.float32)}
    yield "softmax", {"scores": 4 * scores, "n_tokens": _TOKENS}
    yield "linear", {"x": draw(3, 37), "w": draw(5, 37), "y": np.zeros((3, 5), np.float32)}


def _form_cases() -> Iterator[tuple[str, Arguments]]:
    """Affine tiles of every width and byte rows of every kind, with half blocks, for every number of query heads per pass."""
    for size in _GROUP_SIZES:
        for side in ("score", "sum"):
            for bits in (2, 3, 4):
                kernel = f"{side}_affine"
                yield kernel, case_forms.scan_affine(kernel, bits, 32, 48, _KV_HEADS, size, _TOKENS)
            for name in ("int8", "q4_0", "flexgen", "qserve8", "e4m3"):
                kernel, head_dim = f"{side}_bytes", 64 if name == "q4_0" else 48
                yield kernel, case_forms.scan_bytes(kernel, name, head_dim, _KV_HEADS, size, _TOKENS)


def _sketch_cases() -> Iterator[tuple[str, Arguments]]:
    """Signs, sketches, angles, ready codes of every width, and the encoder that shapes its error."""
    for size in _GROUP_SIZES:
        for kernel in ("score_signs", "sum_signs"):
            yield kernel, sketch_inputs.signs(kernel, 48, _KV_HEADS, size, _TOKENS)
        for kernel in ("score_polar", "sum_polar"):
            yield kernel, sketch_inputs.polar(kernel, 48, _KV_HEADS, size, _TOKENS)
        yield "score_sketch", sketch_inputs.sketch(48, 2, 2, _KV_HEADS, size, _TOKENS)
        yield "map_heads", shape_inputs.map_heads(80, 3, _KV_HEADS, size)
    for kernel in ("store_key_codes", "store_value_codes"):
        yield kernel, sketch_inputs.store(kernel, (1, 2, 3, 4), 4, _TOKENS, 13)
    for rate in (2.5, 3.5):
        yield "shape_codes", shape_inputs.shape(rate, 48, 9, _KV_HEADS, 2)


def _outputs(kernel: str, arguments: Arguments) -> Arguments:
    return {a.name: arguments[a.name].copy() for a in KERNELS[kernel].args if a.role != "in"}


@functools.cache
def known_answers() -> tuple[tuple[str, Arguments, Arguments], ...]:
    """(kernel, arguments, expected outputs) of every case, from the numpy backend."""
    reference = NumpyBackend()
    random = np.random.default_rng(20250429)

    def draw(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32)

    found = []
    coded = (case for widths in _WIDTHS for case in _coded_cases(draw, reference.call, widths))
    for kernel, arguments in (*coded, *_plain_cases(draw), *_form_cases(), *_sketch_cases()):
        expected = _outputs(kernel, arguments)
        reference.call(kernel, **{**arguments, **expected})
        found.append((kernel, arguments, expected))
    return tuple(found)


def self_test(backend: Backend) -> int:
    """Run every known answer; returns how many. Raises BackendError naming the first kernel that is wrong."""
    for kernel, arguments, expected in known_answers():
        got = _outputs(kernel, arguments)
        backend.call(kernel, **{**arguments, **got})
        for name, want in expected.items():
            wrong = np.flatnonzero(got[name].view(np.uint8).reshape(-1) != want.view(np.uint8).reshape(-1))
            if wrong.size:
                raise BackendError(
                    f"{backend.name}: self-test: {kernel}: {name}: expected the reference's bytes, "
                    f"got {wrong.size} different ones, the first at byte {wrong[0]}"
                )
    return len(known_answers())
