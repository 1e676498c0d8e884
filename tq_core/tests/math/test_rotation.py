"""The rotation keeps lengths and inner products; truncated padding, its tempting substitute, does not."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from tq_core.errors import TqError
from tq_core.math.hadamard import fwht
from tq_core.math.prng import rademacher
from tq_core.math.rotation import StructuredRotation, haar_rotation

HEAD_DIMS = (16, 64, 80, 96, 112, 128, 160, 256)


def isometry_error(matrix: np.ndarray) -> float:
    """Largest entry of |T T^t - I|, for the (d, d) matrix of a map."""
    t = matrix.astype(np.float64)
    return float(np.abs(t @ t.T - np.eye(len(t))).max())


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_isometry(head_dim: int) -> None:
    rotation = StructuredRotation(head_dim, seed=3)
    assert isometry_error(rotation.forward(np.eye(head_dim, dtype=np.float32))) < 1e-6


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_inverse_and_inner_products(head_dim: int) -> None:
    rotation, rng = StructuredRotation(head_dim, seed=5), np.random.default_rng(head_dim)
    q, k = rng.standard_normal((2, 7, head_dim)).astype(np.float32)
    np.testing.assert_allclose(rotation.inverse(rotation.forward(k)), k, atol=1e-5)
    want = np.einsum("nd,nd->n", q.astype(np.float64), k)
    got = np.einsum("nd,nd->n", rotation.forward(q).astype(np.float64), rotation.forward(k))
    np.testing.assert_allclose(got, want, atol=2e-6 * head_dim)


@pytest.mark.parametrize("head_dim, padded, loss", [(80, 128, 0.375), (96, 128, 0.25), (112, 128, 0.125)])
def test_truncated_padding_is_not_an_isometry(head_dim: int, padded: int, loss: float) -> None:
    """Pad to a power of two, transform, keep head_dim outputs: 1 - d/p of the energy is gone."""
    eye = np.zeros((head_dim, padded), np.float32)
    eye[:, :head_dim] = np.diag(rademacher(3, head_dim))
    kept = fwht(eye)[:, :head_dim] / np.float32(np.sqrt(padded))
    assert isometry_error(kept) > 0.1
    assert 1 - float((kept**2).sum()) / head_dim == pytest.approx(loss, abs=1e-6)


def test_block_transform_with_the_wrong_scale_does_not_round_trip() -> None:
    """Blocks 64 + 32 of 96 channels, each divided by sqrt(96): 2/3 and 1/3 of the input come back."""
    x = np.random.default_rng(0).standard_normal(96).astype(np.float32)
    twice = [fwht(fwht(part)) / np.float32(96) for part in (x[:64], x[64:])]
    np.testing.assert_allclose(twice[0], x[:64] * 2 / 3, atol=1e-5)
    np.testing.assert_allclose(twice[1], x[64:] / 3, atol=1e-5)


def test_haar_is_orthogonal_and_seeded() -> None:
    t = haar_rotation(48, seed=1)
    assert isometry_error(t) < 1e-12
    np.testing.assert_array_equal(t, haar_rotation(48, seed=1))
    assert np.abs(t - haar_rotation(48, seed=2)).max() > 0.1


def test_seeds_give_different_rotations() -> None:
    x = np.random.default_rng(1).standard_normal((2, 64)).astype(np.float32)
    a, b = (StructuredRotation(64, seed).forward(x) for seed in (1, 2))
    assert np.abs(a - b).max() > 0.1


@pytest.mark.parametrize("head_dim", [8, 24, 272, 64.0, "64", None])
def test_bad_head_dim(head_dim: object) -> None:
    with pytest.raises(TqError, match="^head_dim: expected"):
        StructuredRotation(head_dim, seed=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("extent", [1, 63, 128])
def test_vectors_of_another_size_are_refused(extent: int) -> None:
    """Extent 1 would broadcast to a whole vector without a check."""
    for method in (StructuredRotation(64, seed=1).forward, StructuredRotation(64, seed=1).inverse):
        with pytest.raises(TqError, match=r"^x: expected shape \(\.\.\., 64\)"):
            method(np.ones((3, extent), np.float32))


def test_frozen() -> None:
    """A rotation is shared by every cache of its head_dim and seed: nobody may write to it."""
    for table in (StructuredRotation(80, 1).signs, StructuredRotation(80, 1).hadamard):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 0
    with pytest.raises(FrozenInstanceError):
        StructuredRotation(64, 1).seed = 2  # type: ignore[misc]
