"""RaBitQ with one or more bits: the grid point of largest cosine and the factor that unbiases it.

2405.12497 (one bit) and 2409.09913 (more). With u = T x / ||x|| and g the best point of the grid code - (2^B - 1)/2,
x_hat = f T^t g with f = ||x|| / <g, u>, so <q, x_hat> = f (<code, Tq> - (2^B - 1)/2 sum(Tq)) is unbiased. B + 16/d bits
per channel: what a cache needs, where the search library stores 160/d for its bounds. The centroid is zero.

|error| <= ||x|| ||q|| sqrt((1 - cos^2) / cos^2) 1.9 / sqrt(d - 1) is a bound of about two standard deviations: one pair
in twenty exceeds it.

The grid's points are odd integers times 1/2, so scores and sums are those of TurboQuant's kernels, or of the kernels for
signs at one bit; the rotation runs on the backend and the best points are searched in numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags
from tq_core.codecs.eden import EDEN_RULES
from tq_core.codecs.kernel_maps import forward
from tq_core.codecs.mapped import Rows, half_bytes, halves
from tq_core.codecs.tiled import TiledCodec, TiledKeys, TiledValues, Tiles
from tq_core.errors import CodecError, check
from tq_core.kernels.backend import Backend
from tq_core.math.grids import Grid, rabitq_grid
from tq_core.math.maps import ROTATIONS, LinearMap, rotation
from tq_core.math.prng import check_seed
from tq_core.math.rabitq import grid_codes, grid_points
from tq_core.math.scalar import fitted_scale, unit_rows

RABITQ_BITS = (1, 2, 3, 4)


@dataclass(frozen=True)
class _RaBitQ(TiledCodec):
    """``norm`` "unbiased" is the paper's factor; "min_mse" is the scale of least squared error for the same codes.

    Raises CodecError for unknown bits, rotation or rule, ValueRangeError for a seed outside 0..2^64-1.
    """

    bits: int = 3
    seed: int = 1
    rotation: str = "haar"
    norm: str = "unbiased"

    name = "rabitq-tiles"

    def __post_init__(self) -> None:
        check(self.bits in RABITQ_BITS, "bits", f"one of {RABITQ_BITS}", self.bits, CodecError)
        check(self.rotation in ROTATIONS, "rotation", f"one of {ROTATIONS}", repr(self.rotation), CodecError)
        check(self.norm in EDEN_RULES, "norm", f"one of {EDEN_RULES}", repr(self.norm), CodecError)
        check_seed(self.seed)

    @property
    def tags(self) -> CodecTags:
        """Scores are unbiased under the paper's factor."""
        return CodecTags(unbiased_scores=self.norm == "unbiased")

    def tiles(self, head_dim: int) -> tuple[Tiles, ...]:
        return (Tiles(self.bits, head_dim),)

    def grids(self, head_dim: int) -> tuple[Grid, ...]:
        """The grid itself: its points are what the kernels add up."""
        return (rabitq_grid(self.bits),)

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return (rotation(self.rotation, head_dim, self.seed),)

    def encode(self, x: F32, backend: Backend | None = None) -> Rows:
        d = x.shape[-1]
        unit, rho = unit_rows(x)
        u = forward(backend, self.maps(d)[0], unit)
        codes = grid_codes(u.reshape(-1, d), self.bits).reshape(u.shape)
        scale = rho * fitted_scale(
            self.norm, np.sqrt(d) * u.astype(np.float64), grid_points(codes, self.bits)
        )
        return {"scales": half_bytes(scale, "the stored factor"), "codes": codes}

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        return (halves(rows["scales"]) * grid_points(rows["codes"], self.bits),)


@dataclass(frozen=True)
class RaBitQKeys(_RaBitQ, TiledKeys):  # type: ignore[misc]
    """Keys of RaBitQ."""


@dataclass(frozen=True)
class RaBitQValues(_RaBitQ, TiledValues):  # type: ignore[misc]
    """Values under the same codes, least squared error by default; the papers store none."""

    seed: int = 2
    norm: str = "min_mse"
