"""TurboQuant_prod: codes of one bit less, and a sign sketch of what they leave (2504.19874, Algorithm 2).

With u = x / ||x||, u_hat the TurboQuant_mse reconstruction at b - 1 bits and r = u - u_hat in the original basis,
x_hat = ||x|| (u_hat + f ||r|| S^t sign(S r)), where f makes <q, x_hat> unbiased: sqrt(pi/2)/d for a Gaussian S, the exact
constant of math/sketch.py for orthogonal rows of length sqrt(d). Both norms are stored as float16: b + 32/d bits.

Unbiased does not mean quiet: at equal bits the sketch's variance is larger than that of one more bit in the book, by
pi/2 for a Gaussian sketch, and softmax does not average noise in its exponent away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags
from tq_core.codecs.mapped import MappedCodec, MappedKeys, MappedValues, Rows, half_bytes, halves
from tq_core.errors import CodecError, check
from tq_core.math.bitpack import pack_bits, packed_bytes, unpack_bits
from tq_core.math.maps import ROTATIONS, LinearMap, rotation
from tq_core.math.prng import check_seed, splitmix64
from tq_core.math.scalar import nearest, scalar_book, unit_rows
from tq_core.math.sketch import SKETCHES, sign_bits, sign_values, sketch, sketch_constant

CODE_BITS = (1, 2, 3)


@dataclass(frozen=True)
class _Prod(MappedCodec):
    """``code_bits`` in the book and one sign per channel: a code's top bit is the sign.

    Raises CodecError for unknown bits, rotation or sketch, ValueRangeError for a seed outside 0..2^64-1.
    """

    code_bits: int = 2
    seed: int = 1
    rotation: str = "haar"
    sketch: str = "gaussian"

    name = "turboquant-prod"
    tags = CodecTags(same_bits=False, unbiased_scores=True)

    def __post_init__(self) -> None:
        check(self.code_bits in CODE_BITS, "code_bits", f"one of {CODE_BITS}", self.code_bits, CodecError)
        check(self.rotation in ROTATIONS, "rotation", f"one of {ROTATIONS}", repr(self.rotation), CodecError)
        check(self.sketch in SKETCHES, "sketch", f"one of {SKETCHES}", repr(self.sketch), CodecError)
        check_seed(self.seed)

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        return {"norms": (4, 1), "codes": (packed_bytes(head_dim, self.code_bits + 1), 1)}

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        other = int(splitmix64(self.seed, 2)[1])
        return (
            rotation(self.rotation, head_dim, self.seed),
            sketch(self.sketch, head_dim, head_dim, other),
        )

    def encode(self, x: F32) -> Rows:
        d = x.shape[-1]
        rotate, project = self.maps(d)
        centroids, boundaries = scalar_book("sphere", self.code_bits, d)
        unit, rho = unit_rows(x)
        root = np.float32(np.sqrt(d))
        codes = nearest(root * rotate.forward(unit), boundaries)
        residual = unit - rotate.transpose(centroids[codes] / root)
        gamma = np.sqrt((residual.astype(np.float64) ** 2).sum(axis=-1, keepdims=True))
        signed = codes | (sign_bits(project.forward(residual)) << self.code_bits)
        norms = np.concatenate([rho, gamma], axis=-1)
        return {
            "norms": half_bytes(norms, "the norm"),
            "codes": pack_bits(signed.astype(np.uint8), self.code_bits + 1),
        }

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        centroids, _ = scalar_book("sphere", self.code_bits, head_dim)
        signed = unpack_bits(rows["codes"], self.code_bits + 1, head_dim)
        norms = halves(rows["norms"])
        rho, gamma = norms[..., :1], norms[..., 1:]
        main = (rho / np.float32(np.sqrt(head_dim))) * centroids[signed & ((1 << self.code_bits) - 1)]
        factor = np.float32(sketch_constant(self.sketch, head_dim, head_dim))
        return main, (factor * rho * gamma) * sign_values(signed >> np.uint8(self.code_bits))


@dataclass(frozen=True)
class ProdKeys(MappedKeys, _Prod):
    """Keys of TurboQuant_prod."""


@dataclass(frozen=True)
class ProdValues(MappedValues, _Prod):
    """Values of TurboQuant_prod; the noise that makes scores unbiased only adds error to a sum."""

    seed: int = 2
