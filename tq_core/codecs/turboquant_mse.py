"""TurboQuant_mse as published: a dense Haar rotation and the sphere's own book (2504.19874, Algorithm 1).

With t = sqrt(d) T x / ||x||, every coordinate takes its nearest centroid c of the exact marginal, and
x_hat = ||x|| T^t c / sqrt(d): the scale is S = 1, which shrinks by 1 - D. One float16 norm per vector, hence b + 16/d
bits per channel. Rotation, book and rule of the scale are fields, since other methods differ in these alone.
The paper is silent on RoPE (keys are rotated after it here), seeds and the precision of the norm.

MseKeys and MseValues run on the kernels of structured TurboQuant: their books lie on an 8-bit grid (math/grids.py), the
rotation is a float32 matrix product in a defined order, and codes are found in numpy. ScalarRows has the exact book and
is numpy alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tq_core.codecs.base import F32, CodecTags
from tq_core.codecs.kernel_maps import forward
from tq_core.codecs.mapped import NUMPY_ONLY, MappedCodec, Rows, half_bytes, halves
from tq_core.codecs.tiled import TiledCodec, TiledKeys, TiledValues, Tiles
from tq_core.errors import CodecError, check
from tq_core.kernels.backend import Backend
from tq_core.math.bitpack import pack_bits, packed_bytes, unpack_bits
from tq_core.math.grids import Grid, scalar_grid
from tq_core.math.maps import ROTATIONS, LinearMap, rotation
from tq_core.math.prng import check_seed
from tq_core.math.quantize import NormMode
from tq_core.math.scalar import BOOKS, fitted_scale, nearest, scalar_book, unit_rows

MSE_BITS = (1, 2, 3, 4)


@dataclass(frozen=True)
class ScalarRows(MappedCodec):
    """Rotate, code every coordinate, keep one float16 scale.

    Raises CodecError for unknown bits, rotation, book or rule, ValueRangeError for a seed outside 0..2^64-1.
    """

    bits: int = 3
    seed: int = 1
    rotation: str = "haar"
    book: str = "sphere"
    norm: str = "paper"

    name = "turboquant-mse"

    @property
    def tags(self) -> CodecTags:
        """Scores are unbiased under the rule of that name."""
        return replace(NUMPY_ONLY, unbiased_scores=self.norm == "unbiased")

    def __post_init__(self) -> None:
        check(self.bits in MSE_BITS, "bits", f"one of {MSE_BITS}", self.bits, CodecError)
        check(self.rotation in ROTATIONS, "rotation", f"one of {ROTATIONS}", repr(self.rotation), CodecError)
        check(self.book in BOOKS, "book", f"one of {BOOKS}", repr(self.book), CodecError)
        rules = tuple(NormMode.__members__)
        check(self.norm in rules, "norm", f"one of {rules}", repr(self.norm), CodecError)
        check_seed(self.seed)

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        return {"scales": (2, 1), "codes": (packed_bytes(head_dim, self.bits), 1)}

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return (rotation(self.rotation, head_dim, self.seed),)

    def encode(self, x: F32) -> Rows:
        d = x.shape[-1]
        centroids, boundaries = scalar_book(self.book, self.bits, d)
        unit, rho = unit_rows(x)
        t = np.float32(np.sqrt(d)) * self.maps(d)[0].forward(unit)
        codes = nearest(t, boundaries)
        scale = rho * fitted_scale(self.norm, t, centroids[codes])
        return {"scales": half_bytes(scale, "the stored scale"), "codes": pack_bits(codes, self.bits)}

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        centroids, _ = scalar_book(self.book, self.bits, head_dim)
        return (halves(rows["scales"]) * centroids[unpack_bits(rows["codes"], self.bits, head_dim)],)


class ScalarTiles(TiledCodec, ScalarRows):
    """The same under a grid of the book, which the kernels read: see math/grids.py for what the grid costs."""

    def tiles(self, head_dim: int) -> tuple[Tiles, ...]:
        return (Tiles(self.bits, head_dim),)

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        return {}

    def grids(self, head_dim: int) -> tuple[Grid, ...]:
        """The grid of the book."""
        return (scalar_grid(self.book, self.bits, head_dim),)

    def encode(self, x: F32, backend: Backend | None = None) -> Rows:
        d = x.shape[-1]
        (grid,), (rotate,) = self.grids(d), self.maps(d)
        unit, rho = unit_rows(x)
        t = np.float32(np.sqrt(d)) * forward(backend, rotate, unit)
        codes = nearest(t, grid.boundaries)
        scale = rho * fitted_scale(self.norm, t, grid.centroids[codes])
        return {"scales": half_bytes(scale, "the stored scale"), "codes": codes}

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        return (halves(rows["scales"]) * self.grids(head_dim)[0].centroids[rows["codes"]],)


class _Mse(ScalarTiles):
    name = "turboquant-mse-tiles"

    @property
    def tags(self) -> CodecTags:
        """Scores are unbiased under the rule of that name."""
        return CodecTags(unbiased_scores=self.norm == "unbiased")


@dataclass(frozen=True)
class MseKeys(_Mse, TiledKeys):  # type: ignore[misc]
    """Keys of TurboQuant_mse."""


@dataclass(frozen=True)
class MseValues(_Mse, TiledValues):  # type: ignore[misc]
    """Values of TurboQuant_mse."""

    seed: int = 2
