"""Byte tables of partial sums: the bound on their error, what scaling a query does, and a faulty common minimum."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.math.scalar import scalar_book
from tq_core.math.tables import TOP, look_up, partial_sums, quantize_tables


def world(bits: int, d: int = 64, n: int = 500) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Query (3, d), codes (n, d), nibbles (n, d bits / 4), centroids."""
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 1 << bits, (n, d)).astype(np.uint8)
    nibbles = codes if bits == 4 else codes[:, 0::2] | (codes[:, 1::2] << 2)
    return rng.standard_normal((3, d)).astype(np.float32), codes, nibbles, scalar_book("sphere", bits, d)[0]


@pytest.mark.parametrize("bits", [2, 4])
def test_error_is_at_most_half_a_step_per_table(bits: int) -> None:
    query, codes, nibbles, centroids = world(bits)
    sums = partial_sums(query, centroids, bits)
    levels, step, bias = quantize_tables(sums)
    got = step[:, None] * look_up(levels, nibbles) + bias[:, None]
    want = query.astype(np.float64) @ centroids[codes].T
    assert levels.max() == TOP and levels.min() == 0
    error = np.abs(got - want)
    assert (error <= sums.shape[1] * step[:, None] / 2 + 1e-4).all()
    assert error.max() > 2 * step.max()  # the rounding is there


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("factor", [2.0**-40, 2.0**30])
def test_scaling_a_query_never_changes_a_ranking(bits: int, factor: float) -> None:
    query, _, nibbles, centroids = world(bits)
    plain, scaled = (
        quantize_tables(partial_sums(q, centroids, bits))[0] for q in (query, query * np.float32(factor))
    )
    np.testing.assert_array_equal(look_up(plain, nibbles), look_up(scaled, nibbles))


def test_a_zero_query_scores_zero() -> None:
    query, _, nibbles, centroids = world(4)
    levels, step, bias = quantize_tables(partial_sums(np.zeros_like(query), centroids, 4))
    assert not (step[:, None] * look_up(levels, nibbles) + bias[:, None]).any()


def test_one_minimum_for_all_tables_wastes_the_step() -> None:
    """Each table gives up its own minimum; with a common one the span, and so the error, is larger."""
    query, codes, nibbles, centroids = world(4)
    query[:, 0] = 30
    sums = partial_sums(query, centroids, 4)
    want = query.astype(np.float64) @ centroids[codes].T

    def error(low: np.ndarray) -> float:
        step = (sums - low).max(axis=(1, 2), keepdims=True) / TOP
        levels = np.rint((sums - low) / step).astype(np.uint8)
        bias = np.broadcast_to(low, (*sums.shape[:2], 1)).sum(axis=(1, 2))
        got = step[:, 0] * look_up(levels, nibbles) + bias[:, None]
        return float((got - want).std())

    own, common = error(sums.min(axis=2, keepdims=True)), error(sums.min(axis=(1, 2), keepdims=True))
    levels, step, bias = quantize_tables(sums)
    assert float((step[:, None] * look_up(levels, nibbles) + bias[:, None] - want).std()) == pytest.approx(
        own, rel=1e-3
    )
    assert common >= own
