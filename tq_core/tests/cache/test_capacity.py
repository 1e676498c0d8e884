"""The study's formulas against the bytes of real caches, and against values worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tq_core.cache import capacity
from tq_core.cache.accounting import baseline_bytes
from tq_core.cache.breakdown import breakdown
from tq_core.cache.planned import split_tokens
from tq_core.errors import ValueRangeError
from tq_core.kernels.layout import HEADER_BYTES
from tq_core.shapes import ModelShape
from tq_core.tests.cache.test_breakdown import filled
from tq_core.tests.cache.worlds import arm as make_arm

SHAPE = ModelShape(n_layers=2, n_query_heads=6, n_kv_heads=3, head_dim=128)
GB = 10**9


@pytest.mark.parametrize("n", [1, 33, 130, 257])
def test_capacity_formula_is_the_rows_of_a_float16_cache(n: int) -> None:
    cache = filled(SHAPE, make_arm("fp16"), n)
    store = cache.stores["recent"]
    empty = store.pool.in_use * store.layout.page_tokens - SHAPE.n_layers * n
    rows = cache.ledger().recent - store.pool.in_use * HEADER_BYTES - empty * store.layout.payload_bytes // 32
    assert n * capacity.bytes_per_token(SHAPE, 2) == rows == baseline_bytes(SHAPE, n)["fp16"]
    assert n * capacity.bytes_per_token(SHAPE, 1) == baseline_bytes(SHAPE, n)["fp8"]
    assert n * capacity.bytes_per_token(SHAPE, Fraction(34, 32)) == baseline_bytes(SHAPE, n)["q8_0"]


@pytest.mark.parametrize("rates", [(2.0, 2.0), (2.5, 3.0), (3.5, 3.0), (4.0, 2.5)])
@pytest.mark.parametrize("window, n", [(0, 128), (0, 200), (16, 144), (32, 33)])
def test_mixed_rates_are_the_codes_of_a_real_cache(rates: tuple[float, float], window: int, n: int) -> None:
    arm = make_arm("structured-turbo", key_bits=rates[0], value_bits=rates[1], window=window)
    lines = breakdown(filled(SHAPE, arm, n)).nbytes
    packed = n - window
    assert capacity.payload_bytes(SHAPE, packed, *rates) == lines["codes"]
    assert capacity.scale_bytes(SHAPE, arm, n) == lines["scales"]
    extra = capacity.scale_bytes(SHAPE, arm, n)
    assert capacity.windowed_bytes(SHAPE, n, *rates, window, extra) == capacity.step_bytes(SHAPE, arm, n)
    assert capacity.bytes_saved_per_step(SHAPE, packed, *rates) == (
        baseline_bytes(SHAPE, packed)["fp16"] - lines["codes"]
    )


@pytest.mark.parametrize("name", ["fp16", "structured-turbo", "kivi-control"])
def test_a_step_reads_every_live_byte_once(name: str) -> None:
    arm, n = make_arm(name, window=40, sinks=3), 230
    lines, (sinks, packed, recent) = breakdown(filled(SHAPE, arm, n)).nbytes, split_tokens(arm, n)
    rows = (sinks + recent) * capacity.bytes_per_token(SHAPE, 2)
    assert sinks + packed + recent == n
    assert capacity.step_bytes(SHAPE, arm, n) == lines["codes"] + lines["scales"] + rows


def test_all_in_bits_are_those_of_a_page_but_for_the_shared_header() -> None:
    arm = make_arm("structured-turbo", key_bits=3.5, value_bits=3.5, window=0)
    stored = filled(ModelShape(1, 8, 8, 128), arm, 128).ledger().bits_per_channel_stored
    assert float(capacity.bits_all_in(3.5, 16, 0, 128, 128, 8, tensors=2)) == stored
    assert float(capacity.bits_all_in(3.5, 16, 0, 128, 128, 8)) > stored


def test_context_under_a_budget() -> None:
    fixed, window = 10_000, 16
    n = capacity.max_tokens(SHAPE, 10**6, 3.5, 3.0, fixed, window)
    assert capacity.windowed_bytes(SHAPE, n, 3.5, 3.0, window, fixed) <= 10**6
    assert capacity.windowed_bytes(SHAPE, n + 1, 3.5, 3.0, window, fixed) > 10**6
    assert capacity.max_tokens(SHAPE, 30_000, 3.5, 3.0, fixed, window) == 20_000 // (4 * 768)
    assert capacity.max_tokens(SHAPE, 9_000, 3.5, 3.0, fixed, window) == 0
    gain = capacity.max_tokens(SHAPE, GB, 3.5, 3.0) / capacity.max_tokens(SHAPE, GB, 16, 16)
    assert gain == pytest.approx(float(capacity.compression_factor(3.5, 3.0)), rel=1e-4)


def test_the_studys_break_even_pays_for_one_token() -> None:
    saved = float(capacity.bytes_saved_per_step(SHAPE, 1000, 3.5, 3.0))
    assert saved == 1000 * 768 * (4 - 6.5 / 8)
    assert capacity.break_even_study(1e-5, saved, 1e10) == pytest.approx(1e-5 / (saved / 1e10))
    assert capacity.steps_per_second(2e6, 1e10) == 5000


@pytest.mark.parametrize(
    "prompt, append, plain, coded", [(0, 5, 3, 1), (100, 50, 3, 2), (1000, 7, 9, 1), (7, 1, 2, 1)]
)
def test_break_even_is_the_first_step_that_has_paid(prompt: int, append: int, plain: int, coded: int) -> None:
    """Step by step, in whole seconds: the smallest G after which the sum of savings covers all appends."""
    spent, generated = append * prompt, 0
    while generated == 0 or spent > 0:
        generated += 1
        spent += append - (plain - coded) * (prompt + generated)
    assert capacity.break_even_tokens(prompt, append, plain, coded) == generated


def test_break_even_at_the_ends() -> None:
    assert capacity.break_even_tokens(100, 1e-5, 1e-9, 1e-9) is None
    assert capacity.break_even_tokens(100, 1e-5, 1e-9, 2e-9) is None
    assert capacity.break_even_tokens(100, 0, 2e-9, 1e-9) == 0
    assert capacity.break_even_tokens(100, 0, 1e-9, 2e-9) is None
    assert capacity.break_even_tokens(0, 10_000, 2, 1) == 19_999


@pytest.mark.parametrize(
    "call, names",
    [
        (lambda: capacity.bytes_per_token(SHAPE, 0), "bytes_per_value"),
        (lambda: capacity.payload_bytes(SHAPE, 1, -1, 3), "key_bits"),
        (lambda: capacity.break_even_study(1, 0, 1), "saved_bytes"),
        (lambda: capacity.break_even_tokens(-1, 1, 1, 1), "prompt"),
        (lambda: capacity.break_even_tokens(1, -1, 1, 1), "append_seconds"),
        (lambda: capacity.steps_per_second(1, 0), "bandwidth"),
    ],
)
def test_bad_input_names_the_argument(call, names: str) -> None:
    with pytest.raises(ValueRangeError, match=names):
        call()
