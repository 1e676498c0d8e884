"""Inputs on which every backend must equal the numpy reference: shapes, tails and unpleasant values.

Each case is a name and a function of case_inputs with its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tq_core.kernels import case_forms as forms
from tq_core.kernels import case_inputs as inputs
from tq_core.kernels import shape_inputs, sketch_inputs
from tq_core.kernels.case_inputs import Arguments, Rate
from tq_core.math.books import RATES
from tq_core.math.pairs import PAIR_CHANNELS
from tq_core.math.quantize import NormMode

HEAD_DIMS = (16, 32, 64, 80, 96, 112, 128, 160, 256, 576)
TOKEN_COUNTS = (0, 1, 2, 15, 16, 17, 31, 32, 33, 127, 128, 129, 300)
PAIR_RATES = ("pair 3.5", "pair 2.5")
GROUPS = (1, 2, 3, 4, 5, 7, 8, 16)  # query heads per KV head
# Builders that several kernels share: they are told which.
_PER_KERNEL = (
    inputs.scan, inputs.saturated, inputs.append, inputs.attend, inputs.attend_each, forms.scan_affine, forms.scan_bytes, forms.saturated_affine,
    sketch_inputs.signs, sketch_inputs.polar, sketch_inputs.store,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One parity case of one kernel."""

    kernel: str
    name: str
    build: Callable[[], Arguments]


def _case(kernel: str, build: Callable[..., Arguments], *args: object) -> Case:
    label = "x".join(str(a.name if isinstance(a, NormMode) else a) for a in args)
    if build in _PER_KERNEL:
        return Case(kernel, label, lambda: build(kernel, *args))
    return Case(kernel, label, lambda: build(*args))


def rates_for(head_dim: int) -> tuple[Rate, ...]:
    """Every rate that this head size has."""
    return (*RATES, *PAIR_RATES) if head_dim % PAIR_CHANNELS == 0 else RATES


def cases() -> Iterator[Case]:
    """Every parity case, kernel by kernel, small sizes first."""
    for d in HEAD_DIMS:
        for n in (0, 1, 11):
            yield _case("rotate", inputs.rotate, d, n, 0)
            yield _case("rotate", inputs.rotate, d, n, 1)
        yield _case("quantize_query", inputs.query, d, 9, 32639)
        yield _case("quantize_query", inputs.query, d, 9, 127)
        for rate in rates_for(d):
            yield _case("encode_rows", inputs.encode, rate, d, NormMode.matched)
    for mode in (NormMode.paper, NormMode.unbiased, NormMode.min_mse):
        yield _case("encode_rows", inputs.encode, 3.5, 64, mode)
    for kernel, mode in (("append_keys", NormMode.matched), ("append_values", NormMode.min_mse)):
        for d in (16, 64, 80, 128, 576):
            for rate in rates_for(d):
                yield _case(kernel, inputs.append, rate, d, 7, 125, mode)
        for n, first in ((0, 0), (1, 31), (17, 16), (130, 100)):
            yield _case(kernel, inputs.append, 3.0, 48, n, first, mode)
    for d, n, first in ((16, 0, 0), (48, 32, 0), (48, 64, 96), (80, 96, 32), (128, 160, 0), (576, 32, 128)):
        yield _case("append_keys", inputs.append, 3.5, d, n, first, NormMode.matched, 32)
    yield _case("append_keys", inputs.append, 2.0, 64, 40, 120, NormMode.min_mse, 8)
    for kernel in ("score_keys", "sum_values", "score_keys_f32", "sum_values_f32"):
        for d in HEAD_DIMS if kernel in ("score_keys", "sum_values") else (16, 80, 128, 576):
            for rate in rates_for(d):
                yield _case(kernel, inputs.scan, rate, d, 2, 3, 33)
        for tokens in TOKEN_COUNTS:
            yield _case(kernel, inputs.scan, 3.5, 64, 3, 2, tokens)
            yield _case(kernel, inputs.scan, PAIR_RATES[tokens % 2], 64, 2, 2, tokens)
        for group in GROUPS:
            yield _case(kernel, inputs.scan, 3.0, 32, 1, group, 47)
    for kernel in ("score_keys", "score_keys_f32"):
        for d, tokens in ((16, 0), (16, 1), (64, 33), (80, 129), (128, 300), (576, 47)):
            yield _case(kernel, inputs.scan, 3.5, d, 2, 5, tokens, 1)
    for d in (256, 576):
        for rate in (2.0, 4.0, *PAIR_RATES):
            yield _case("score_keys", inputs.saturated, rate, d)
            yield _case("sum_values", inputs.saturated, rate, d)
    for kernel in ("score_f16", "sum_f16"):
        for d in HEAD_DIMS:
            yield _case(kernel, inputs.scan, None, d, 3, 2, 41)
        for tokens in TOKEN_COUNTS[:9]:
            yield _case(kernel, inputs.scan, None, 64, 1, 5, tokens)
    yield from _form_cases()
    for small in (0, 1):
        for key_rate, value_rate in ((3.5, 3.0), (4.0, 4.0), (2.0, 2.5), (3.0, 3.5)):
            for d in (16, 64, 80, 128, 256, 576):
                yield _case("attend_packed", inputs.attend, key_rate, value_rate, d, 2, 3, 161, small)
        for tokens in TOKEN_COUNTS:
            yield _case("attend_packed", inputs.attend, 3.5, 3.0, 32, 3, 1, tokens, small)
        for d in (32, 128, 576):
            mixed: tuple[tuple[Rate, Rate], ...] = ((3.0, "pair 2.5"), ("pair 3.5", 3.5))
            for rates in (PAIR_RATES, PAIR_RATES[::-1], *mixed):
                yield _case("attend_packed", inputs.attend, *rates, d, 2, 3, 161, small)
        for tokens, first in ((0, 5), (1, 127), (3, 130), (150, 16), (150, 37), (33, 256)):
            yield _case("attend_packed", inputs.attend, 3.5, 3.0, 32, 2, 3, tokens, small, first)
        for d, tokens, first in ((16, 1, 0), (64, 129, 0), (80, 170, 100), (576, 140, 0)):
            yield _case("attend_packed", inputs.attend, 3.5, 3.0, d, 2, 5, tokens, small, first, 1)
    for group in GROUPS:
        yield _case("attend_packed", inputs.attend, *PAIR_RATES, 64, 1, group, 140, 0)
        yield _case("attend_packed", inputs.attend, 3.5, 3.0, 64, 1, group, 140, 0)
        yield _case("attend_half", inputs.attend, None, 0, 32, 2, group, 37, 0, 3)
    for d in HEAD_DIMS:
        yield _case("attend_half", inputs.attend, None, 0, d, 3, 2, 41, 0, 5)
    for tokens in TOKEN_COUNTS[:9]:
        yield _case("attend_half", inputs.attend, None, 0, 64, 1, 5, tokens, 0, 5)
    for d, tokens, queries in ((16, 1, 1), (64, 140, 5), (80, 33, 4), (128, 129, 2)):
        for small, centred in ((0, 0), (1, 0), (0, 1)):
            yield _case(
                "attend_packed_each", inputs.attend_each, 3.5, 3.0, d, 2, 3, tokens, queries, small, centred
            )
        yield _case("attend_half_each", inputs.attend_each, None, 0, d, 2, 3, tokens, queries, 0)
    for parts, heads, d in ((1, 3, 16), (2, 5, 80), (7, 4, 64)):
        for sinks in (0, 1, 2):
            yield _case("merge_states", inputs.merge, parts, heads, d, sinks)
    for d in HEAD_DIMS:
        yield _case("map_heads", shape_inputs.map_heads, d, 2, 2, 3)
        for rate in RATES:
            yield _case("shape_codes", shape_inputs.shape, rate, d, 3 if d > 160 else 11, 2, 2)
    for n, kv_heads, group in ((0, 1, 1), (1, 8, 4), (33, 1, 9)):
        yield _case("map_heads", shape_inputs.map_heads, 64, n, kv_heads, group)
    for n, kv_heads, passes in ((0, 2, 3), (1, 3, 0), (9, 1, 1), (40, 2, 5)):
        yield _case("shape_codes", shape_inputs.shape, 3.5, 64, n, kv_heads, passes)
    yield from _sketch_cases()
    for n in TOKEN_COUNTS:
        yield _case("softmax", inputs.softmax, n, 5, 4.0)
    yield _case("softmax", inputs.softmax, 100, 3, 60.0)
    for n, width, outputs in ((0, 16, 3), (1, 1, 1), (3, 15, 2), (2, 17, 5), (5, 64, 7), (3, 384, 11)):
        yield _case("linear", inputs.linear, n, width, outputs)


def _sketch_cases() -> Iterator[Case]:
    """Signs, sketches and PolarQuant's angles."""
    for kernel, build in (
        ("score_signs", sketch_inputs.signs),
        ("sum_signs", sketch_inputs.signs),
        ("score_polar", sketch_inputs.polar),
        ("sum_polar", sketch_inputs.polar),
    ):
        for d in HEAD_DIMS:
            yield _case(kernel, build, d, 2, 3, 33)
        for tokens in TOKEN_COUNTS:
            yield _case(kernel, build, 64, 3, 2, tokens)
        for group in GROUPS:
            yield _case(kernel, build, 32, 1, group, 47)
    for kernel in ("store_key_codes", "store_value_codes"):
        for width in (1, 2, 3, 4):
            yield _case(kernel, sketch_inputs.store, (width,), 5, 7, 125)
        for n, first in ((0, 0), (1, 31), (17, 16), (130, 100)):
            yield _case(kernel, sketch_inputs.store, (1, 3, 4, 2), 4, n, first)
        yield _case(kernel, sketch_inputs.store, (1,), 144, 3, 30)
    for tokens in (0, 17, 129):
        yield _case("score_signs", sketch_inputs.signs, 48, 2, 2, tokens, 1)
    for d in (16, 80, 128, 576):
        yield _case("score_sketch", sketch_inputs.sketch, d, 2, 1, 2, 3, 33)
    for ratio, outer_ratio in ((1, 1), (4, 2), (2, 4)):
        yield _case("score_sketch", sketch_inputs.sketch, 64, ratio, outer_ratio, 1, 5, 70)
    for tokens in TOKEN_COUNTS:
        yield _case("score_sketch", sketch_inputs.sketch, 32, 2, 2, 2, 4, tokens, 2)
    for group, outliers in ((1, 0), (2, 16), (7, 4)):
        yield _case("score_sketch", sketch_inputs.sketch, 48, 1, 2, 1, group, 47, outliers)


def _form_cases() -> Iterator[Case]:
    """Affine tiles and byte rows."""
    for kernel in ("score_affine", "sum_affine"):
        for bits in (2, 3, 4):
            for d in (16, 64, 80, 128, 576):
                yield _case(kernel, forms.scan_affine, bits, 32, d, 2, 3, 145)
            for d in (256, 576):
                yield _case(kernel, forms.saturated_affine, bits, d)
        for tokens in TOKEN_COUNTS:
            yield _case(kernel, forms.scan_affine, 3, 64, 48, 2, 2, tokens)
        for group in GROUPS:
            for bits in (2, 3, 4):
                yield _case(kernel, forms.scan_affine, bits, 128, 32, 1, group, 130)
    for kernel in ("score_bytes", "sum_bytes"):
        for name in forms.BYTE_FORMATS:
            for d in (16, 48, 64, 80, 128, 576):
                yield _case(kernel, forms.scan_bytes, name, d, 2, 3, 33)
            for group in (1, 4, 6):
                yield _case(kernel, forms.scan_bytes, name, 32, 1, group, 130)
        for tokens in TOKEN_COUNTS:
            yield _case(kernel, forms.scan_bytes, "flexgen", 96, 3, 2, tokens)
