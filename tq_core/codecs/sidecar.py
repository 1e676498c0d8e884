"""Rotation with an outlier sidecar: a token's few huge channels are kept in float16, the rest is rotated and coded.

Up to ``outliers`` channels of a token whose size is beyond ``limit`` times what is usual in it (the median size over 0.6745, a
Gaussian's standard deviation, which the outliers themselves do not move) leave the vector before the rotation, the largest first, and come back as they were: a count byte, then a channel index (one byte; two above 256
channels) and a float16 value for each place, used or not. At head_dim 128 the count costs 0.0625 bits per channel and
each place 0.1875. Rotation spreads an outlier over all coordinates, whose common scale then grows with it: one channel
of 20 at d = 128 carries three quarters of the energy, and without it the error falls to a quarter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags
from tq_core.codecs.mapped import MappedCodec, MappedKeys, MappedValues, Rows, half_bytes, halves
from tq_core.codecs.turboquant_mse import ScalarRows
from tq_core.errors import CodecError, check
from tq_core.math.maps import Identity, LinearMap

PLACES = (1, 2, 4, 8)
MEDIAN = 0.6745  # of the size of N(0, 1)


@dataclass(frozen=True)
class SidecarRows(MappedCodec):
    """Raises CodecError for another number of places or a limit below 1, and what ScalarRows raises."""

    bits: int = 3
    seed: int = 1
    rotation: str = "structured"
    norm: str = "matched"
    outliers: int = 2
    limit: float = 4.0

    name = "sidecar"
    tags = CodecTags(same_bits=False)

    def __post_init__(self) -> None:
        check(self.outliers in PLACES, "outliers", f"one of {PLACES}", repr(self.outliers), CodecError)
        number = isinstance(self.limit, (int, float)) and not isinstance(self.limit, bool)
        check(
            number and 1 <= self.limit < 1e6, "limit", "a number of 1 or more", repr(self.limit), CodecError
        )
        self._codes.maps  # noqa: B018  (its fields are checked when it is made)

    @property
    def _codes(self) -> ScalarRows:
        return ScalarRows(self.bits, self.seed, self.rotation, "gauss", self.norm)

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        places = self.outliers * (_index_type(head_dim).itemsize + 2)
        return {"counts": (1, 1), "outliers": (places, 1), **self._codes.row_streams(head_dim)}

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return (*self._codes.maps(head_dim), Identity())

    def encode(self, x: F32) -> Rows:
        size = np.abs(x)
        usual = np.median(size.astype(np.float64), axis=-1, keepdims=True) / MEDIAN
        # A stable sort: among equals the first channel leaves, so that codes do not depend on the sort's whims.
        order = np.argsort(-size, axis=-1, kind="stable")[..., : self.outliers]
        leaves = np.take_along_axis(size, order, axis=-1) > self.limit * usual
        values = np.where(leaves, np.take_along_axis(x, order, axis=-1), np.float32(0))
        channels = np.where(leaves, order, 0).astype(_index_type(x.shape[-1]))
        rest = x.copy()
        np.put_along_axis(
            rest, order, np.where(leaves, np.float32(0), np.take_along_axis(x, order, axis=-1)), axis=-1
        )
        index = np.ascontiguousarray(channels).view(np.uint8)
        kept = half_bytes(values, "outliers")
        counts = leaves.sum(axis=-1, keepdims=True).astype(np.uint8)
        return {
            "counts": counts,
            "outliers": np.concatenate([index, kept], axis=-1),
            **self._codes.encode(rest),
        }

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        kind, n = _index_type(head_dim), self.outliers
        raw = rows["outliers"]
        channels = np.ascontiguousarray(raw[..., : n * kind.itemsize]).view(kind).astype(np.int64)
        values = halves(raw[..., n * kind.itemsize :])
        used = np.arange(n) < rows["counts"]
        sparse = np.zeros((*raw.shape[:-1], head_dim), np.float32)
        for place in range(n):  # places of one token name different channels; unused ones add nothing
            at = np.minimum(channels[..., place : place + 1], head_dim - 1)
            before = np.take_along_axis(sparse, at, axis=-1)
            np.put_along_axis(sparse, at, np.where(used[..., place : place + 1], values[..., place : place + 1], before), axis=-1)  # fmt: skip
        return (*self._codes.coordinates(rows, head_dim), sparse)


def _index_type(head_dim: int) -> np.dtype:
    return np.dtype("u1") if head_dim <= 256 else np.dtype("<u2")


@dataclass(frozen=True)
class SidecarKeys(MappedKeys, SidecarRows):
    """Keys."""


@dataclass(frozen=True)
class SidecarValues(MappedValues, SidecarRows):
    """Values."""

    seed: int = 2
    norm: str = "min_mse"
