"""Linear maps of a head's vectors, with one interface: forward x -> M x, transpose y -> M^t y.

An orthogonal map is undone by its transpose. All work row by row in a fixed order of additions, so that a vector's
image does not depend on how many vectors are mapped with it: stored codes may not either.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tq_core.errors import CodecError, check
from tq_core.math.block_maps import PermutedBlocks
from tq_core.math.hadamard import transform
from tq_core.math.prng import splitmix64
from tq_core.math.rotation import StructuredRotation, haar_rotation

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
ROWS = 128  # rows mapped at a time by a dense matrix: their sums stay in the cache
ROTATIONS = ("haar", "structured", "two-rounds", "permuted-blocks", "hadamard")


class LinearMap(Protocol):
    """A map of the last axis, float32 in and out."""

    @property
    def nbytes(self) -> int:
        """Bytes of its tables."""

    def forward(self, x: F32) -> F32:
        """(..., d) to (..., m)."""

    def transpose(self, y: F32) -> F32:
        """(..., m) to (..., d)."""


@dataclass(frozen=True, eq=False)
class DenseMap:
    """A matrix (m, d) in float64; sums run over its columns, one product and one rounding each."""

    matrix: F64

    @cached_property
    def single(self) -> F32:
        """(m, d) float32, for kernels."""
        return np.ascontiguousarray(self.matrix, np.float32)

    @cached_property
    def single_transposed(self) -> F32:
        """(d, m) float32."""
        return np.ascontiguousarray(self.matrix.T, np.float32)

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes

    def forward(self, x: F32) -> F32:
        return _columns(x, self.matrix)

    def transpose(self, y: F32) -> F32:
        return _columns(y, self.matrix.T)


def _columns(x: F32, matrix: F64) -> F32:
    rows = np.asarray(x, np.float64).reshape(-1, matrix.shape[1])
    out = np.zeros((len(rows), len(matrix)))
    columns = np.ascontiguousarray(matrix.T)
    for first in range(0, len(rows), ROWS):
        block, total = rows[first : first + ROWS], out[first : first + ROWS]
        product = np.empty_like(total)
        for j, column in enumerate(columns):
            np.multiply(block[:, j, None], column, out=product)
            total += product
    return out.reshape(*x.shape[:-1], len(matrix)).astype(np.float32)


@dataclass(frozen=True)
class Identity:
    """x itself."""

    nbytes = 0

    def forward(self, x: F32) -> F32:
        return x

    def transpose(self, y: F32) -> F32:
        return y


@dataclass(frozen=True)
class Constant:
    """The sum of a vector's channels; its transpose repeats one number in every channel (a minimum, a zero point)."""

    head_dim: int
    nbytes = 0

    def forward(self, x: F32) -> F32:
        return x.sum(axis=-1, keepdims=True, dtype=np.float32)

    def transpose(self, y: F32) -> F32:
        return np.repeat(y, self.head_dim, axis=-1)


@dataclass(frozen=True)
class Rounds:
    """``rounds`` structured rotations one after another, each with signs of its own.

    One round makes a one-hot vector flat instead of Gaussian-like; after two a coordinate's distribution hardly
    depends on the input. The first round has the seed itself.
    """

    head_dim: int
    seed: int
    rounds: int

    @cached_property
    def parts(self) -> tuple[StructuredRotation, ...]:
        """The rotations in the order of forward."""
        more = (int(s) for s in splitmix64(self.seed, self.rounds - 1)) if self.rounds > 1 else ()
        return tuple(StructuredRotation(self.head_dim, s) for s in (self.seed, *more))

    @property
    def nbytes(self) -> int:
        return sum(p.signs.nbytes + p.hadamard.nbytes for p in self.parts)

    def forward(self, x: F32) -> F32:
        for part in self.parts:
            x = part.forward(x)
        return x

    def transpose(self, y: F32) -> F32:
        for part in reversed(self.parts):
            y = part.inverse(y)
        return y


@dataclass(frozen=True)
class PlainHadamard:
    """H / sqrt(d) without signs, as vLLM's merged presets have it. A constant vector becomes a single spike."""

    head_dim: int

    @cached_property
    def _rotation(self) -> StructuredRotation:
        return StructuredRotation(self.head_dim, 0)

    @property
    def nbytes(self) -> int:
        return self._rotation.hadamard.nbytes

    def forward(self, x: F32) -> F32:
        return self._rotation.unit * transform(np.asarray(x, np.float32), self._rotation.hadamard)

    def transpose(self, y: F32) -> F32:
        return self._rotation.unit * transform(np.asarray(y, np.float32), self._rotation.hadamard, True)


@lru_cache(maxsize=64)
def rotation(kind: str, head_dim: int, seed: int) -> LinearMap:
    """An orthogonal map by name. Raises CodecError for a name that is not one of ROTATIONS.

    "haar" depends on LAPACK in its last bits, hence what is stored under it may too, on another machine.
    """
    check(kind in ROTATIONS, "rotation", f"one of {ROTATIONS}", repr(kind), CodecError)
    if kind == "haar":
        return DenseMap(haar_rotation(head_dim, seed))
    if kind == "permuted-blocks":
        return PermutedBlocks(head_dim, seed)
    if kind == "hadamard":
        return PlainHadamard(head_dim)
    return Rounds(head_dim, seed, 1 if kind == "structured" else 2)
