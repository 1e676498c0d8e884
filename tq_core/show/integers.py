"""Why the hot loops add integers: what that costs in accuracy, why no sum overflows, how many products an instruction makes."""

from __future__ import annotations

import numpy as np

from tq_core.kernels.layout import PAGE_TOKENS
from tq_core.math.quantize import QUERY_MAX
from tq_core.show.ladder import relative_error
from tq_core.show.page_set import PageSet
from tq_core.show.work import fused_step, separate_step

STEP_MAX = 255  # a centroid is an odd integer 2u - 255 of at most this magnitude
WIDTHS = (128, 256, 512)


def largest_sum(terms: int) -> int:
    """The largest magnitude that a sum of ``terms`` products of a centroid and a 16-bit multiplier can have."""
    return STEP_MAX * int(QUERY_MAX) * terms


def bound_rows(head_dims: tuple[int, ...] = (64, 128, 256)) -> list[list[object]]:
    """(sum, largest magnitude, share of int32's range): scores over channels, value sums over a page's tokens."""
    sums = [(f"score, head_dim {d}", d) for d in head_dims] + [
        (f"value sum, {PAGE_TOKENS} tokens", PAGE_TOKENS)
    ]
    top = np.iinfo(np.int32).max
    return [[name, largest_sum(n), f"{largest_sum(n) / top:.1%}"] for name, n in sums]


def product_rows() -> list[list[object]]:
    """(how, products of one instruction in registers of 128, 256 and 512 bits); two instructions count half each."""
    ways = (
        ("bytes by int8, dpbusd (fast mode)", 8, 1),
        ("bytes by int16, dpbusd for high and low byte (exact)", 8, 2),
        ("int16 by int16, madd (exact, without VNNI and in wasm)", 16, 1),
        ("float32, fused multiply-add (one rounding: other bits)", 32, 1),
        ("float32, multiply, then add (the oracle)", 32, 2),
    )
    return [[name, *(width // bits // instructions for width in WIDTHS)] for name, bits, instructions in ways]


def error_rows(data: PageSet) -> list[list[object]]:
    """(arithmetic, bits of query, of weights, error of the step against float64 over the same codes), by the numpy twins."""
    works = (
        ("float32 in lane order", 24, 24, separate_step(data, exact=False)),
        ("exact: 16-bit integers", 16, 15, fused_step(data)),
        ("fast: 8-bit integers", 8, 7, fused_step(data, fast=True)),
    )
    return [
        [name, query, weights, relative_error(work.on_numpy(), data.true_outputs)]
        for name, query, weights, work in works
    ]


def code_error(data: PageSet) -> float:
    """Error of the step over the codes, in float64, against attention over the vectors before they were encoded."""
    return relative_error(data.true_outputs.astype(np.float32), data.plain_outputs)
