"""RoPE against rotation of complex numbers, and the property that it exists for."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import ShapeError, ValueRangeError
from tq_core.model.rope import RopeTable

THETA = 10000.0


def rotated_as_complex(pairs: np.ndarray, first_position: int) -> np.ndarray:
    """Pairs (n_tokens, n_heads, head_dim / 2) complex, times exp(i m theta**(-2 i / d)), in float64."""
    n_tokens, _, n_pairs = pairs.shape
    positions = np.arange(first_position, first_position + n_tokens)[:, None]
    angles = positions * THETA ** (-np.arange(n_pairs) / n_pairs)
    return pairs * np.exp(1j * angles)[:, None, :]


@pytest.mark.parametrize("head_dim", [16, 64, 80])
@pytest.mark.parametrize("first_position", [0, 5, 1000])
def test_both_layouts_rotate_complex_pairs(head_dim: int, first_position: int) -> None:
    table = RopeTable.build(1024, head_dim, THETA)
    vectors = np.random.default_rng(1).standard_normal((7, 3, head_dim)).astype(np.float32)
    wide = vectors.astype(np.float64)
    adjacent = rotated_as_complex(wide[..., 0::2] + 1j * wide[..., 1::2], first_position)
    got = table.rotate_adjacent(vectors, first_position)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got[..., 0::2], adjacent.real, atol=2e-6)
    np.testing.assert_allclose(got[..., 1::2], adjacent.imag, atol=2e-6)
    half = head_dim // 2
    split = rotated_as_complex(wide[..., :half] + 1j * wide[..., half:], first_position)
    got = table.rotate_half_split(vectors, first_position)
    np.testing.assert_allclose(got[..., :half], split.real, atol=2e-6)
    np.testing.assert_allclose(got[..., half:], split.imag, atol=2e-6)


def test_scores_depend_on_distance_only() -> None:
    table = RopeTable.build(4096, 64, THETA)
    query, key = np.random.default_rng(2).standard_normal((2, 1, 1, 64)).astype(np.float32)

    def score(query_at: int, key_at: int) -> float:
        return float(np.vdot(table.rotate_adjacent(query, query_at), table.rotate_adjacent(key, key_at)))

    assert score(110, 100) == pytest.approx(score(4010, 4000), abs=1e-4)
    assert score(110, 100) != pytest.approx(score(111, 100), abs=1e-2)


def test_angles_are_exact_far_out() -> None:
    table = RopeTable.build(8192, 64, 100000.0)
    angle = 8191 * 100000.0 ** (-2 / 64)
    assert float(table.cosines[8191, 1]) == pytest.approx(np.cos(angle), abs=1e-7)


def test_out_of_range_arguments_are_refused() -> None:
    table = RopeTable.build(8, 16, THETA)
    with pytest.raises(ShapeError, match="first_position"):
        table.rotate_adjacent(np.zeros((2, 1, 16), np.float32), 7)
    with pytest.raises(ShapeError, match="vectors"):
        table.rotate_adjacent(np.zeros((2, 1, 32), np.float32), 0)
    with pytest.raises(ShapeError, match="head_dim"):
        RopeTable.build(8, 20, THETA)
    with pytest.raises(ValueRangeError, match="theta"):
        RopeTable.build(8, 16, float("nan"))
    with pytest.raises(ValueRangeError, match="pairing"):
        RopeTable.build(8, 16, 1e4).rotate(np.zeros((1, 1, 16), np.float32), 0, "thirds")
