"""Sign sketches: z = sign(S k) with ||k||, and the query's inner product with k from them (QJL, 2406.03482).

With a Gaussian S of m rows, E[z_i <s_i, q>] = sqrt(2/pi) <q, k> / ||k||, so sqrt(pi/2)/m ||k|| <Sq, z> has mean <q, k>
and variance ((pi/2) ||q||^2 ||k||^2 - <q, k>^2) / m. The query is not quantized: signs on both sides would estimate the
angle. Orthogonal rows of length sqrt(d) lower the variance; there the constant is 1 / (m sqrt(d) E|u_1|) for u uniform
on the sphere, which the Gaussian one exceeds by 1 / (4 d).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from tq_core.errors import CodecError, check
from tq_core.math.maps import DenseMap, LinearMap, Rounds
from tq_core.math.prng import splitmix64
from tq_core.math.rotation import haar_rotation

SKETCHES = ("gaussian", "orthogonal", "structured")


def mean_abs_coordinate(dim: int) -> float:
    """E|u_1| of a uniform point u on the sphere in ``dim`` dimensions: Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))."""
    return float(special.poch(dim / 2, 0.5) ** -1 / np.sqrt(np.pi))


class StructuredSketch:
    """sqrt(d) times one structured rotation: orthogonal rows without a stored matrix."""

    def __init__(self, head_dim: int, seed: int) -> None:
        self.map, self.root = Rounds(head_dim, seed, 1), np.float32(np.sqrt(head_dim))
        self.nbytes = self.map.nbytes

    def forward(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """(..., d) to (..., d)."""
        return self.root * self.map.forward(x)

    def transpose(self, y: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """(..., d) to (..., d)."""
        return self.root * self.map.transpose(y)


@lru_cache(maxsize=64)
def sketch(kind: str, rows: int, dim: int, seed: int) -> LinearMap:
    """The map S (rows, dim): iid Gaussian, or orthogonal rows of length sqrt(dim) in blocks of ``dim`` rows.

    Raises CodecError for another kind, and for a structured sketch whose rows are not ``dim``.
    """
    check(kind in SKETCHES, "sketch", f"one of {SKETCHES}", repr(kind), CodecError)
    if kind == "gaussian":
        return DenseMap(np.random.default_rng([seed, 1]).standard_normal((rows, dim)))
    if kind == "structured":
        check(rows == dim, "rows", f"{dim} for a structured sketch", rows, CodecError)
        return StructuredSketch(dim, seed)
    seeds = splitmix64(seed, 1 + -(-rows // dim))[1:]
    blocks = [haar_rotation(dim, int(s)) for s in seeds]
    return DenseMap(np.concatenate(blocks)[:rows] * np.sqrt(dim))


def sketch_constant(kind: str, rows: int, dim: int) -> float:
    """The factor that makes factor * ||k|| * <Sq, sign(Sk)> unbiased."""
    if kind == "gaussian":
        return float(np.sqrt(np.pi / 2) / rows)
    return 1.0 / (rows * np.sqrt(dim) * mean_abs_coordinate(dim))


def sign_bits(x: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """1 where x is not negative, zero included, else 0."""
    return (x >= 0).astype(np.uint8)


def sign_values(bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """+1 for a set bit, -1 for a clear one."""
    return np.float32(2) * bits.astype(np.float32) - np.float32(1)
