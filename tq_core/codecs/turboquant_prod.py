"""TurboQuant_prod: codes of one bit less, and a sign sketch of what they leave (2504.19874, Algorithm 2).

With u = x / ||x||, u_hat the TurboQuant_mse reconstruction at b - 1 bits and r = u - u_hat in the original basis,
x_hat = ||x|| (u_hat + f ||r|| S^t sign(S r)), where f makes <q, x_hat> unbiased: sqrt(pi/2)/d for a Gaussian S, the exact
constant of math/sketch.py for orthogonal rows of length sqrt(d). ||x|| / sqrt(d) and ||x|| ||r|| are stored as float16:
b + 32/d bits. Codes and signs are tiles of their own, read by the kernels of TurboQuant and of signs; the book lies on
an 8-bit grid (math/grids.py).

Unbiased does not mean quiet: at equal bits the sketch's variance is larger than that of one more bit in the book, by
pi/2 for a Gaussian sketch, and softmax does not average noise in its exponent away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags
from tq_core.codecs.kernel_maps import forward, transpose
from tq_core.codecs.mapped import Rows, half_bytes, halves
from tq_core.codecs.tiled import TiledCodec, TiledKeys, TiledValues, Tiles
from tq_core.errors import CodecError, check
from tq_core.kernels.backend import Backend
from tq_core.math.grids import SIGNS, Grid, scalar_grid
from tq_core.math.maps import ROTATIONS, LinearMap, rotation
from tq_core.math.prng import check_seed, splitmix64
from tq_core.math.scalar import nearest, unit_rows
from tq_core.math.sketch import SKETCHES, sign_bits, sign_values, sketch, sketch_constant

CODE_BITS = (1, 2, 3)


@dataclass(frozen=True)
class _Prod(TiledCodec):
    """``code_bits`` in the book, and one sign per channel in a stream of its own.

    Raises CodecError for unknown bits, rotation or sketch, ValueRangeError for a seed outside 0..2^64-1.
    """

    code_bits: int = 2
    seed: int = 1
    rotation: str = "haar"
    sketch: str = "gaussian"

    name = "turboquant-prod-tiles"
    tags = CodecTags(unbiased_scores=True)

    def __post_init__(self) -> None:
        check(self.code_bits in CODE_BITS, "code_bits", f"one of {CODE_BITS}", self.code_bits, CodecError)
        check(self.rotation in ROTATIONS, "rotation", f"one of {ROTATIONS}", repr(self.rotation), CodecError)
        check(self.sketch in SKETCHES, "sketch", f"one of {SKETCHES}", repr(self.sketch), CodecError)
        check_seed(self.seed)

    def tiles(self, head_dim: int) -> tuple[Tiles, ...]:
        residual = Tiles(1, head_dim, "residual_scales", "residual_codes")
        return Tiles(self.code_bits, head_dim), residual

    def grids(self, head_dim: int) -> tuple[Grid, ...]:
        """The main codes' grid, and signs times the constant of the sketch."""
        factor = np.float32(sketch_constant(self.sketch, head_dim, head_dim))
        return scalar_grid("sphere", self.code_bits, head_dim), Grid(SIGNS.levels, factor)

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        other = int(splitmix64(self.seed, 2)[1])
        return (
            rotation(self.rotation, head_dim, self.seed),
            sketch(self.sketch, head_dim, head_dim, other),
        )

    def encode(self, x: F32, backend: Backend | None = None) -> Rows:
        d = x.shape[-1]
        rotate, project = self.maps(d)
        grid = self.grids(d)[0]
        unit, rho = unit_rows(x)
        root = np.float32(np.sqrt(d))
        codes = nearest(root * forward(backend, rotate, unit), grid.boundaries)
        residual = unit - transpose(backend, rotate, grid.centroids[codes] / root)
        gamma = np.sqrt((residual.astype(np.float64) ** 2).sum(axis=-1, keepdims=True))
        return {
            "scales": half_bytes(rho / root, "the norm"),
            "codes": codes,
            "residual_scales": half_bytes(rho * gamma, "the norm of the residual"),
            "residual_codes": sign_bits(forward(backend, project, residual)),
        }

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        main, signs = self.grids(head_dim)
        residual = halves(rows["residual_scales"]) * signs.scale
        return (
            halves(rows["scales"]) * main.centroids[rows["codes"]],
            residual * sign_values(rows["residual_codes"]),
        )


@dataclass(frozen=True)
class ProdKeys(_Prod, TiledKeys):  # type: ignore[misc]
    """Keys of TurboQuant_prod."""


@dataclass(frozen=True)
class ProdValues(_Prod, TiledValues):  # type: ignore[misc]
    """Values of TurboQuant_prod; the noise that makes scores unbiased only adds error to a sum."""

    seed: int = 2
