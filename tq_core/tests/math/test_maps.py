"""Maps: isometries and their transposes, rows that do not depend on their neighbours, and one that is no isometry."""

from __future__ import annotations

import numpy as np
import pytest

from tq_core.errors import CodecError
from tq_core.math.block_maps import SplitBlocks
from tq_core.math.maps import ROTATIONS, Constant, DenseMap, Rounds, rotation
from tq_core.math.rotation import StructuredRotation

HEAD_DIMS = (16, 48, 64, 80, 112, 128, 160)


def matrix(m: object, d: int) -> np.ndarray:
    """The map as a float64 matrix."""
    return m.forward(np.eye(d, dtype=np.float32)).T.astype(np.float64)  # type: ignore[attr-defined]


@pytest.mark.parametrize("d", HEAD_DIMS)
@pytest.mark.parametrize("kind", ROTATIONS)
def test_isometry_and_transpose(kind: str, d: int) -> None:
    turn = rotation(kind, d, 3)
    t = matrix(turn, d)
    assert np.abs(t @ t.T - np.eye(d)).max() < 2e-6
    x = np.random.default_rng(d).standard_normal((2, 5, d)).astype(np.float32)
    np.testing.assert_allclose(turn.transpose(turn.forward(x)), x, atol=2e-5)
    np.testing.assert_allclose(turn.transpose(x), x @ t, atol=2e-5)


@pytest.mark.parametrize("kind", ROTATIONS)
def test_a_row_does_not_depend_on_how_many_are_mapped(kind: str) -> None:
    turn = rotation(kind, 80, 5)
    x = np.random.default_rng(0).standard_normal((300, 80)).astype(np.float32)
    whole = turn.forward(x)
    for rows in (slice(0, 1), slice(7, 24), slice(299, 300)):
        np.testing.assert_array_equal(turn.forward(np.ascontiguousarray(x[rows])), whole[rows])


def test_seeds_matter_except_without_signs() -> None:
    x = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    for kind in ROTATIONS:
        same = np.allclose(rotation(kind, 64, 1).forward(x), rotation(kind, 64, 2).forward(x))
        assert same is (kind == "hadamard")


def test_one_round_is_the_structured_rotation() -> None:
    x = np.random.default_rng(2).standard_normal((3, 80)).astype(np.float32)
    np.testing.assert_array_equal(Rounds(80, 9, 1).forward(x), StructuredRotation(80, 9).forward(x))


@pytest.mark.parametrize("d", [80, 112])
def test_kurtosis_of_a_rotated_one_hot(d: int) -> None:
    """One round: exactly flat. Two rounds and Haar: that of the sphere, 3 d / (d + 2), over 40 seeds."""
    eye = np.eye(d, dtype=np.float32)

    def kurtosis(kind: str) -> float:
        fourth = [(rotation(kind, d, s).forward(eye).astype(np.float64) ** 4).mean() for s in range(40)]
        return float(np.mean(fourth) * d * d)

    assert kurtosis("structured") == pytest.approx(1, abs=1e-5)
    assert kurtosis("two-rounds") == pytest.approx(3 * d / (d + 2), abs=0.1)
    assert kurtosis("haar") == pytest.approx(3 * d / (d + 2), abs=0.03)


def test_blocks_are_orthogonal_only_under_their_own_size() -> None:
    right, wrong = (matrix(SplitBlocks((32, 96), 1, own), 128) for own in (True, False))
    assert np.abs(right @ right.T - np.eye(128)).max() < 1e-6
    np.testing.assert_allclose(
        np.diag(wrong @ wrong.T), np.repeat([1, 2 / 3, 1 / 3], [32, 64, 32]), atol=1e-6
    )


def test_constant_repeats_and_sums() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    assert Constant(6).forward(x).tolist() == [[15], [51]]
    np.testing.assert_array_equal(
        Constant(6).transpose(np.float32([[2], [3]])), np.repeat([[2], [3]], 6, axis=1)
    )


def test_dense_map_equals_its_matrix() -> None:
    m = np.random.default_rng(3).standard_normal((40, 16))
    x = np.random.default_rng(4).standard_normal((3, 2, 16)).astype(np.float32)
    np.testing.assert_allclose(DenseMap(m).forward(x), x @ m.T, rtol=1e-5, atol=1e-5)
    y = DenseMap(m).forward(x)
    np.testing.assert_allclose(DenseMap(m).transpose(y), y @ m, rtol=1e-5, atol=1e-4)


def test_unknown_name() -> None:
    with pytest.raises(CodecError, match="^rotation: expected one of"):
        rotation("dense", 64, 1)
