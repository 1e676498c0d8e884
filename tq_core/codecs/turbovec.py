"""TurboVec-style codes and scores: sphere book, unbiased float32 scale, and lookups in 8-bit tables of partial sums.

After the turbovec library (github.com/RyanCodrai/turbovec). Its rotation permutes, flips signs and transforms blocks
of the power of two in head_dim, twice; its scalar per vector is ||v|| / <u, c / sqrt(d)>, the unbiased scale, kept in 32
bits: b + 32/d bits per channel. Scores round the query's tables to bytes (math/tables.py), so they differ from the codes'
own inner products by up to half a step per table. It indexes keys only: the values here are our completion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags
from tq_core.codecs.mapped import MappedCodec, MappedKeys, MappedValues, Rows
from tq_core.errors import CodecError, ValueRangeError, check
from tq_core.math.bitpack import pack_bits, packed_bytes, unpack_bits
from tq_core.math.maps import LinearMap, rotation
from tq_core.math.prng import check_seed
from tq_core.math.scalar import fitted_scale, nearest, scalar_book, unit_rows
from tq_core.math.tables import look_up, partial_sums, quantize_tables

TABLE_BITS = (2, 4)


@dataclass(frozen=True)
class _TurboVec(MappedCodec):
    """Raises CodecError for other bits than 2 and 4, ValueRangeError for a seed outside 0..2^64-1."""

    bits: int = 4
    seed: int = 1

    name = "turbovec"
    tags = CodecTags(same_bits=False, unbiased_scores=True, read_tolerance=2e-2)
    _rule = "unbiased"

    def __post_init__(self) -> None:
        check(self.bits in TABLE_BITS, "bits", f"one of {TABLE_BITS}", self.bits, CodecError)
        check_seed(self.seed)

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        return {"scales": (4, 1), "codes": (packed_bytes(head_dim, self.bits), 1)}

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return (rotation("permuted-blocks", head_dim, self.seed),)

    def encode(self, x: F32) -> Rows:
        d = x.shape[-1]
        centroids, boundaries = scalar_book("sphere", self.bits, d)
        unit, rho = unit_rows(x)
        t = np.float32(np.sqrt(d)) * self.maps(d)[0].forward(unit)
        codes = nearest(t, boundaries)
        with np.errstate(over="ignore"):
            scale = (rho * fitted_scale(self._rule, t, centroids[codes])).astype(np.float32)
        check(
            bool(np.isfinite(scale).all()), "x", "norms within the float32 range", rho.max(), ValueRangeError
        )
        return {"scales": scale.view(np.uint8), "codes": pack_bits(codes, self.bits)}

    def scales(self, rows: Rows) -> F32:
        """(n_kv_heads, n_tokens, 1)."""
        return np.ascontiguousarray(rows["scales"]).view(np.float32)

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        centroids, _ = scalar_book("sphere", self.bits, head_dim)
        return (self.scales(rows) * centroids[unpack_bits(rows["codes"], self.bits, head_dim)],)


@dataclass(frozen=True)
class TurboVecKeys(MappedKeys, _TurboVec):
    """Keys scored through byte tables."""

    def logits(self, queries: F32, rows: Rows) -> F32:
        heads, d = len(queries), queries.shape[-1]
        centroids, _ = scalar_book("sphere", self.bits, d)
        sums = partial_sums(self.maps(d)[0].forward(queries), centroids, self.bits)
        levels, step, bias = quantize_tables(sums)
        nibbles = unpack_bits(rows["codes"], 4, d * self.bits // 4)
        whole = np.stack([look_up(levels[h], nibbles[h]) for h in range(heads)])
        scores: F32 = step[..., None] * whole.astype(np.float32) + bias[..., None]
        return scores * np.swapaxes(self.scales(rows), -1, -2)


@dataclass(frozen=True)
class TurboVecValues(MappedValues, _TurboVec):
    """Values under the same codes and the scale of least squared error, summed in float32."""

    seed: int = 2

    tags = CodecTags(same_bits=False)
    _rule = "min_mse"
