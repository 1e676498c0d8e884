"""Strategies that draw a kernel's arguments: sizes, bit widths, token counts, orders of pages, values.

The parity cases are chosen by hand on both sides of the edges that are known; these look for edges that are not. They
go through the same builders, then special values and another order of pages are put in.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tq_core.kernels import case_forms as forms
from tq_core.kernels import case_inputs as inputs
from tq_core.kernels import shape_inputs, sketch_inputs
from tq_core.kernels.case_inputs import Arguments
from tq_core.kernels.cases import Case
from tq_core.kernels.table import KERNELS
from tq_core.math.books import RATES
from tq_core.math.quantize import NormMode

SPECIAL = (0.0, -0.0, 1e-45, -1e-42, 1.17e-38, -1e-30, 1e-7, 1.0, 3.0e4, -6.0e4)
SPECIAL_HALVES = (0.0, 6e-8, 6.1e-5, 1.0, 65504.0)
# Inputs that are never negative (a step, a weight, a sum of weights).
POSITIVE = ("step", "weights", "total", "totals")
FIXED = ("signs", "hadamard", "levels", "book_scale", "boundaries", "angles", "metric")  # tables, not data

head_dims = st.one_of(st.integers(1, 16).map(lambda n: 16 * n), st.just(576))
rates = st.sampled_from(RATES)
modes = st.sampled_from(list(NormMode))
kv_heads, groups = st.integers(1, 4), st.integers(1, 9)
# Around the edges of tiles and pages, and anywhere between.
tokens = st.one_of(st.integers(0, 300), st.sampled_from((0, 1, 31, 32, 33, 127, 128, 129, 256, 257)))
flags = st.integers(0, 1)


def _encode_rows(rate: float, head_dim: int, mode: NormMode, n: int) -> Arguments:
    made = inputs.encode(rate, head_dim, mode)
    return {**made, **{name: made[name][:n].copy() for name in ("x", "codes", "scales")}}


def _scan_bytes(kernel: str, name: str, head_dim: int, *sizes: int) -> Arguments:
    blocks = name in ("q8_0", "q4_0")  # of 32 channels
    return forms.scan_bytes(kernel, name, -(-head_dim // 32) * 32 if blocks else head_dim, *sizes)


def _softmax(n_tokens: int, rows: int, spread: float) -> Arguments:
    return inputs.softmax(n_tokens, rows, spread)


def _scan(kernel: str) -> st.SearchStrategy[tuple[Callable[..., Arguments], tuple[Any, ...]]]:
    rate = st.none() if kernel.endswith("f16") else rates
    centred = flags if kernel.startswith("score_keys") else st.just(0)
    return st.tuples(
        st.just(inputs.scan), st.tuples(st.just(kernel), rate, head_dims, kv_heads, groups, tokens, centred)
    )


def _append(kernel: str) -> st.SearchStrategy[tuple[Callable[..., Arguments], tuple[Any, ...]]]:
    drawn = st.tuples(st.just(kernel), rates, head_dims, st.integers(0, 40), st.integers(0, 260), modes)
    return st.tuples(st.just(inputs.append), drawn)


def _of(build: Callable[..., Arguments], *parts: Any) -> st.SearchStrategy[Any]:
    return st.tuples(st.just(build), st.tuples(*parts))


# Kernel -> strategy of (builder, its arguments).
STRATEGIES: dict[str, st.SearchStrategy[Any]] = {
    "rotate": _of(inputs.rotate, head_dims, st.integers(0, 20), flags),
    "encode_rows": _of(_encode_rows, rates, head_dims, modes, st.integers(0, 37)),
    "append_keys": _append("append_keys"),
    "append_values": _append("append_values"),
    "quantize_query": _of(inputs.query, head_dims, st.integers(1, 20), st.sampled_from((127, 32639))),
    **{k: _scan(k) for k in KERNELS if k.startswith(("score_", "sum_")) and not k.endswith(("_affine", "_bytes"))},
    **{f"{k}_affine": _of(
        forms.scan_affine, st.just(f"{k}_affine"), st.integers(2, 4), st.sampled_from((32, 64, 128)), head_dims, kv_heads,
        groups, tokens,
    ) for k in ("score", "sum")},
    **{f"{k}_bytes": _of(_scan_bytes, st.just(f"{k}_bytes"), st.sampled_from(forms.BYTE_FORMATS), head_dims, kv_heads, groups, tokens)
       for k in ("score", "sum")},
    **{
        k: _of(sketch_inputs.signs, st.just(k), head_dims, kv_heads, groups, tokens, flags)
        for k in ("score_signs", "sum_signs")
    },
    **{
        k: _of(sketch_inputs.polar, st.just(k), head_dims, kv_heads, groups, tokens)
        for k in ("score_polar", "sum_polar")
    },
    **{
        k: _of(
            sketch_inputs.store, st.just(k), st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple),
            st.integers(1, 40), st.integers(0, 40), st.integers(0, 260),
        )
        for k in ("store_key_codes", "store_value_codes")
    },
    "score_sketch": _of(
        sketch_inputs.sketch, head_dims, st.sampled_from((1, 2, 4)), st.sampled_from((1, 2, 4)), kv_heads, groups,
        tokens, st.integers(0, 16),
    ),
    "attend_packed": _of(
        inputs.attend, st.just("attend_packed"), rates, rates, head_dims, kv_heads, groups, tokens, flags,
        st.integers(0, 300), flags,
    ),
    "attend_half": _of(
        inputs.attend, st.just("attend_half"), st.none(), st.just(0), head_dims, kv_heads, groups, tokens, st.just(0),
        st.integers(0, 40),
    ),
    "attend_packed_each": _of(
        inputs.attend_each, st.just("attend_packed_each"), rates, rates, head_dims, kv_heads, groups, tokens,
        st.integers(1, 5), flags, flags,
    ),
    "attend_half_each": _of(
        inputs.attend_each, st.just("attend_half_each"), st.none(), st.just(0), head_dims, kv_heads, groups, tokens,
        st.integers(1, 5), st.just(0),
    ),
    "map_heads": _of(shape_inputs.map_heads, head_dims, st.integers(0, 5), st.integers(1, 3), st.integers(1, 4)),
    "shape_codes": _of(
        shape_inputs.shape, st.sampled_from(RATES), head_dims, st.integers(0, 9), st.integers(1, 3), st.integers(0, 3)
    ),
    "merge_states": _of(inputs.merge, st.integers(1, 9), st.integers(1, 12), head_dims, st.integers(0, 3)),
    "softmax": _of(_softmax, tokens, st.integers(1, 8), st.sampled_from((0.0, 1.0, 30.0, 1e4))),
    "linear": _of(inputs.linear, st.integers(0, 6), st.integers(1, 200), st.integers(1, 9)),
}  # fmt: skip

places = st.integers(0, 2**31 - 1)
plants = st.lists(st.tuples(places, st.sampled_from(SPECIAL), places), max_size=6)


def _plant(kernel: str, made: Arguments, values: list[tuple[int, float, int]]) -> None:
    """Put special values into the float32 arrays that a kernel reads."""
    data = [
        a for a in KERNELS[kernel].args
        if a.dtype == "f4" and a.role != "out" and a.name not in FIXED and made[a.name].size
    ]  # fmt: skip
    for which, value, place in values if data else ():
        arg = data[which % len(data)]
        kept = abs(value) if arg.name in POSITIVE else value
        if arg.name in ("peak", "peaks", "sink"):
            kept += 0.0  # a step never leaves a peak of negative zero
        made[arg.name].reshape(-1)[place % made[arg.name].size] = np.float32(kept)


def _plant_scales(made: Arguments, place: int, value: float) -> None:
    """One stored scale of one page, where the page has scales."""
    page_tokens, page_bytes, header, _, key_scales, key_codes, value_scales, value_codes, _ = (
        int(v) for v in made["layout"]
    )
    for at, codes in ((key_scales, key_codes), (value_scales, value_codes)):
        if codes != at and made["pages"].size:
            page = int(made["pages"][place % made["pages"].size])
            start = page * page_bytes + header + at + 2 * (place % page_tokens)
            made["pool"][start : start + 2] = np.array([value], np.float16).view(np.uint8)


@st.composite
def drawn_cases(draw: st.DrawFn, kernel: str) -> Case:
    """A case of ``kernel`` whose name holds the sizes and everything else that was drawn."""
    build, sizes = draw(STRATEGIES[kernel])
    values = draw(plants)
    made = build(*sizes)
    _plant(kernel, made, values)
    order = ""
    if "pages" in made:
        scale_place, scale = draw(places), draw(st.sampled_from(SPECIAL_HALVES))
        _plant_scales(made, scale_place, scale)
        available = made["pool"].size // int(made["layout"][1])
        # A page may be read twice, but not written twice.
        once = kernel.startswith(("append", "store"))
        n = made["pages"].size
        drawn = draw(st.lists(st.integers(0, available - 1), min_size=n, max_size=n, unique=once))
        made["pages"] = np.array(drawn, np.uint32)
        order = f", pages {drawn}, scale {scale} at {scale_place}"
    shown = [str(s.name if isinstance(s, NormMode) else s) for s in sizes if s != kernel]
    return Case(kernel, f"{'x'.join(shown)}, planted {values}{order}", lambda: copy.deepcopy(made))
