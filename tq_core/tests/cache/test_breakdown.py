"""The lines of the ledger add up to the buffers, and the plan of a cache equals the cache: to the byte, everywhere."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tq_core.cache import planned
from tq_core.cache.breakdown import LINES, Breakdown, breakdown, page_bits, stream_line
from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import Arm
from tq_core.errors import ShapeError, ValueRangeError
from tq_core.kernels.backend import get_backend
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import arm as make_arm

ARMS = ("fp16", "structured-turbo", "kivi-control", "paged-halves")
SHAPES = [ModelShape(2, 3 * g, g, d) for g, d in ((1, 16), (3, 80), (2, 96), (1, 112), (5, 128), (1, 256))]
# Around the edges of half pages (32), groups (32), packed pages (128), window and sinks.
LENGTHS = (0, 1, 3, 4, 31, 32, 33, 63, 64, 65, 127, 128, 129, 160, 161, 255, 257, 300)


def filled(shape: ModelShape, arm: Arm, n: int, reserve: bool = True) -> PagedCache:
    """A cache with n tokens in every layer, layer after layer; the last 40 by decode steps of one token."""
    cache = PagedCache(shape, arm, get_backend(), n if reserve else 0)
    rng = np.random.default_rng(n)
    for layer in range(shape.n_layers):
        k, v = rng.standard_normal((2, n, shape.n_kv_heads, shape.head_dim)).astype(np.float32)
        q = rng.standard_normal((n, shape.n_query_heads, shape.head_dim)).astype(np.float32)
        first = max(n - 40, 0)
        cache.append(layer, k[:first], v[:first])
        for i in range(first, n):
            cache.attend(layer, q[i : i + 1], k[i : i + 1], v[i : i + 1])
    return cache


def check_zero_difference(shape: ModelShape, arm: Arm, n: int) -> None:
    cache = filled(shape, arm, n)
    ledger, lines = cache.ledger(), breakdown(cache)
    buffers = sum(cache.buffers().values())
    assert lines.total - buffers == 0 == ledger.total - buffers
    assert tuple(lines.nbytes) == LINES
    assert min(lines.nbytes.values()) >= 0
    if n:
        assert sum(lines.bits.values()) == Fraction(8 * buffers, n * lines.channels)
    plan = planned.planned(shape, arm, n)
    assert dict(plan.nbytes) == dict(lines.nbytes)
    assert (plan.n_tokens, plan.channels) == (lines.n_tokens, lines.channels)


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("n", LENGTHS)
def test_lines_sum_to_the_buffers_and_the_plan_equals_the_cache(name: str, n: int) -> None:
    check_zero_difference(SHAPES[n % len(SHAPES)], make_arm(name, window=32, sinks=4), n)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("policy", [(0, 0), (9, 3), (128, 33)], ids=str)
def test_every_arm_and_shape_around_every_edge(name: str, shape: ModelShape, policy: tuple[int, int]) -> None:
    for n in LENGTHS[
        SHAPES.index(shape) % 2 :: 2
    ]:  # every length with every arm and policy, on half of the shapes
        check_zero_difference(shape, make_arm(name, window=policy[0], sinks=policy[1]), n)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    name=st.sampled_from(ARMS),
    layers=st.integers(1, 3),
    heads=st.integers(1, 3),
    group=st.integers(1, 5),
    d=st.integers(1, 16),
    n=st.integers(0, 330),
    window=st.integers(0, 140),
    sinks=st.integers(0, 40),
)
def test_any_shape_and_policy(
    name: str, layers: int, heads: int, group: int, d: int, n: int, window: int, sinks: int
) -> None:
    shape = ModelShape(layers, heads * group, heads, 16 * d)
    check_zero_difference(shape, make_arm(name, window=window, sinks=sinks), n)


@pytest.mark.parametrize("name", ARMS)
def test_a_cache_that_grew_differs_in_idle_pages_alone(name: str) -> None:
    shape, arm = SHAPES[1], make_arm(name, window=9, sinks=2)
    cache = filled(shape, arm, 200, reserve=False)
    grown, plan = breakdown(cache).nbytes, planned.planned(shape, arm, 200, reserve=False)
    assert plan.nbytes["idle pages"] == 0
    counts = planned.REFERENCE_BYTES * sum(len(store.pool.free) for store in cache.store_list)
    assert dict(plan.nbytes) == {**grown, "idle pages": 0, "block tables": grown["block tables"] - counts}


@pytest.mark.parametrize("bits", [2.0, 2.5, 3.0, 3.5, 4.0])
def test_a_full_page_costs_its_nominal_bits_first(bits: float) -> None:
    shape = ModelShape(1, 8, 8, 128)
    arm = make_arm("structured-turbo", key_bits=bits, value_bits=2.0, window=0)
    lines = page_bits(shape, arm)
    assert next(iter(lines)) == "codes"
    assert lines["codes"] == Fraction(bits + 2.0) / 2
    assert lines["scales"] == Fraction(16, 128)
    assert float(sum(lines.values())) == PagedCache(shape, arm).ledger().bits_per_channel_stored
    assert page_bits(shape, make_arm("fp16")).keys() == {"codes", "headers"}


def test_kivi_pays_a_bit_for_steps_and_minima() -> None:
    lines = page_bits(ModelShape(1, 2, 2, 64), make_arm("kivi-control", key_bits=2, value_bits=4, window=0))
    assert (lines["codes"], lines["scales"]) == (3, 1)


@pytest.mark.parametrize(
    "stream, line",
    [
        ("key_codes", "codes"),
        ("value_scales", "scales"),
        ("key_minima", "scales"),
        ("key_outliers", "sidecars"),
    ],
)
def test_streams_have_a_line(stream: str, line: str) -> None:
    assert stream_line(stream) == line


def test_a_byte_that_no_line_names_would_be_seen() -> None:
    """Plant an unlisted buffer: the plan no longer equals the cache."""
    cache = filled(SHAPES[0], make_arm("structured-turbo", window=9), 40)
    cache.stores["packed"].pool.reserve(cache.stores["packed"].pool.capacity + 1)
    assert breakdown(cache).total != planned.planned(SHAPES[0], cache.arm, 40).total


def test_bad_input_is_refused() -> None:
    shape, arm = SHAPES[0], make_arm("structured-turbo", window=9)
    with pytest.raises(ValueRangeError, match="n_tokens"):
        planned.planned(shape, arm, -1)
    with pytest.raises(ValueRangeError, match="at least one token"):
        _ = planned.planned(shape, arm, 0).bits
    with pytest.raises(ValueRangeError, match="lines"):
        Breakdown({"codes": 1}, 1, 1)
    with pytest.raises(ValueRangeError, match="local_layers"):
        planned.planned_local(shape, arm, 10, 3, 5)
    with pytest.raises(ShapeError):
        ModelShape(1, 1, 1, 20)


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("budget", [1, 40_000, 1_000_000, 12_345_678])
def test_longest_fits_and_one_token_more_does_not(name: str, budget: int) -> None:
    shape, arm = SHAPES[2], make_arm(name, window=64, sinks=4)

    def total(n: int) -> int:
        return planned.planned(shape, arm, n).total

    n = planned.longest(total, budget)
    assert n == 0 or total(n) <= budget
    assert total(n + 1) > budget


def test_local_layers_hold_their_window_and_part_of_a_page() -> None:
    shape, arm = ModelShape(6, 4, 1, 64), make_arm("structured-turbo", window=32)
    part = planned.planned(ModelShape(5, 4, 1, 64), arm, 512 + 127)
    full = planned.planned(ModelShape(1, 4, 1, 64), arm, 5000)
    both = planned.planned_local(shape, arm, 5000, 5, 512)
    assert both.nbytes["codes"] == part.nbytes["codes"] + full.nbytes["codes"]
    assert both.nbytes["scratch"] == full.nbytes["scratch"]
    assert both.nbytes["fixed tables"] == full.nbytes["fixed tables"]
    assert both.total < planned.planned(shape, arm, 5000).total
    assert planned.planned_local(shape, arm, 5000, 0, 512) == planned.planned(shape, arm, 5000)
    assert planned.planned_local(shape, arm, 300, 5, 512) == planned.planned(shape, arm, 300)
