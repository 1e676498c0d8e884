"""Orthogonal transforms of a head's vector: structured (signs, then Hadamard) and dense (Haar)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tq_core.errors import check
from tq_core.math.hadamard import paley, paley_order, transform
from tq_core.math.prng import check_seed, rademacher
from tq_core.shapes import check_head_dim

Array = npt.NDArray[np.float32]


def _read_only(array: Array) -> Array:
    array.setflags(write=False)
    return array


@dataclass(frozen=True)
class StructuredRotation:
    """T = H D / sqrt(d): Rademacher signs D from a seed, then an exact Hadamard H (Fast-TurboQuant, 2606.21448).

    Keys and queries of a head share one T, so <Tq, Tk> = <q, k>.
    """

    head_dim: int
    seed: int

    def __post_init__(self) -> None:
        check_head_dim(self.head_dim)
        check_seed(self.seed)

    @cached_property
    def signs(self) -> Array:
        """(head_dim,) float32, +1 or -1, read-only."""
        return _read_only(rademacher(self.seed, self.head_dim))

    @cached_property
    def hadamard(self) -> Array:
        """(m, m) float32 Paley factor; [[1]] for powers of two."""
        return _read_only(np.ascontiguousarray(paley(paley_order(self.head_dim)), np.float32))

    @property
    def unit(self) -> np.float32:
        """1 / sqrt(head_dim), the factor that makes H orthonormal."""
        return np.float32(1.0 / np.sqrt(np.float64(self.head_dim)))

    def forward(self, x: Array) -> Array:
        """T x along the last axis, float32. Raises ShapeError unless that axis has head_dim entries."""
        return self.unit * transform(self.signs * self._vectors(x), self.hadamard)

    def inverse(self, x: Array) -> Array:
        """T^t x along the last axis, float32. Raises ShapeError unless that axis has head_dim entries."""
        return self.unit * (self.signs * transform(self._vectors(x), self.hadamard, inverse=True))

    def _vectors(self, x: Array) -> Array:
        x = np.asarray(x, np.float32)
        check(x.shape[-1:] == (self.head_dim,), "x", f"shape (..., {self.head_dim})", x.shape)
        return x


def haar_rotation(head_dim: int, seed: int) -> npt.NDArray[np.float64]:
    """A (d, d) orthogonal matrix from the Haar measure: QR of a Gaussian, signs fixed by R's diagonal.

    For the paper's dense variant (2504.19874, Algorithm 1). Its bits depend on LAPACK, so nothing
    that is stored or compared bit for bit may use it.
    """
    gaussian = np.random.default_rng(seed).standard_normal((head_dim, head_dim))
    q, r = np.linalg.qr(gaussian)
    return q * np.sign(np.diag(r))
