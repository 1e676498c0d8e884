"""Rotated coordinates coded two at a time by a book of the plane: what a pair code could reach at the same bits.

As structured TurboQuant, but neighbouring coordinates (2 i, 2 i + 1) of t = sqrt(d) T x / ||x|| take the nearest of 2^B
points of an LBG book for N(0, I) (math/plane_books.py): B / 2 + 16 / d bits per channel. At 2.5 bits a quarter less
error than half of the channels at each of 2 and 3 bits, at 3.5 three tenths. Numpy only: a search per pair when
encoding, and one product per pair and query from a table would score it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tq_core.codecs.base import F32, CodecTags
from tq_core.codecs.mapped import NUMPY_ONLY, MappedCodec, MappedKeys, MappedValues, Rows, half_bytes, halves
from tq_core.errors import CodecError, check
from tq_core.math.bitpack import pack_bits, packed_bytes, unpack_bits
from tq_core.math.maps import ROTATIONS, LinearMap, rotation
from tq_core.math.plane_books import PLANE_BITS, nearest_points, plane_book
from tq_core.math.prng import check_seed
from tq_core.math.quantize import NormMode
from tq_core.math.scalar import fitted_scale, unit_rows


@dataclass(frozen=True)
class PlaneRows(MappedCodec):
    """Raises CodecError for an unknown rate, rotation or rule, ValueRangeError for a seed outside 0..2^64-1."""

    bits: float = 3.5
    seed: int = 1
    rotation: str = "structured"
    norm: str = "matched"

    name = "plane"

    def __post_init__(self) -> None:
        rules = tuple(NormMode.__members__)
        check(self.bits in PLANE_BITS, "bits", f"one of {tuple(PLANE_BITS)}", self.bits, CodecError)
        check(self.rotation in ROTATIONS, "rotation", f"one of {ROTATIONS}", repr(self.rotation), CodecError)
        check(self.norm in rules, "norm", f"one of {rules}", repr(self.norm), CodecError)
        check_seed(self.seed)

    @property
    def tags(self) -> CodecTags:
        """Scores are unbiased under the rule of that name."""
        return replace(NUMPY_ONLY, unbiased_scores=self.norm == "unbiased")

    @property
    def pair_bits(self) -> int:
        """Bits of a pair's code."""
        return PLANE_BITS[self.bits]

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        return {"scales": (2, 1), "codes": (packed_bytes(head_dim // 2, self.pair_bits), 1)}

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return (rotation(self.rotation, head_dim, self.seed),)

    def fixed_bytes(self, head_dim: int) -> int:
        return super().fixed_bytes(head_dim) + plane_book(self.pair_bits).nbytes

    def encode(self, x: F32) -> Rows:
        d = x.shape[-1]
        unit, rho = unit_rows(x)
        t = np.float32(np.sqrt(d)) * self.maps(d)[0].forward(unit)
        codes = nearest_points(t.reshape(*t.shape[:-1], d // 2, 2), self.pair_bits)
        scale = rho * fitted_scale(self.norm, t, self._points(codes, d))
        return {"scales": half_bytes(scale, "the stored scale"), "codes": pack_bits(codes, self.pair_bits)}

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        codes = unpack_bits(rows["codes"], self.pair_bits, head_dim // 2)
        return (halves(rows["scales"]) * self._points(codes, head_dim),)

    def _points(self, codes: np.ndarray, head_dim: int) -> F32:
        out: F32 = plane_book(self.pair_bits)[codes].reshape(*codes.shape[:-1], head_dim)
        return out


@dataclass(frozen=True)
class PlaneKeys(MappedKeys, PlaneRows):
    """Keys."""


@dataclass(frozen=True)
class PlaneValues(MappedValues, PlaneRows):
    """Values."""

    seed: int = 2
    norm: str = "min_mse"
