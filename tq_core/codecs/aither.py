"""The hybrid modes tq35 and tq25 of the aither-kvcache wheel (2.4.1), as published and as repaired.

Raw channels are split in two groups, the first half at 4 bits and the rest at 3 (tq35), or the first quarter at 3 bits
and the rest at 2 (tq25); the first channels count as outliers, as without calibration. Each group is normalised,
rotated by signs and Walsh-Hadamard blocks, coded with one bit less than its rate in the sphere's book, and one sign per
channel sketches the residual. Four float16 norms: 64 and 44 bytes at d = 128, 4.0 and 2.75 bits per channel.

"published" has the wheel's two faults. The sketch's map is orthonormal, but its constant is that of a Gaussian sketch,
sqrt(pi/2)/G, which is sqrt(G) too small. And a group of G channels that is no power of two is
transformed in blocks that are all divided by sqrt(G) instead of their own size, so that blocks come back too short (2/3
and 1/3 of 64 and 32 channels). "repaired" takes the exact constant and each block's own size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tq_core.codecs.base import F32, CodecTags
from tq_core.codecs.mapped import NUMPY_ONLY, MappedCodec, MappedKeys, MappedValues, Rows, half_bytes, halves
from tq_core.errors import CodecError, check
from tq_core.math.bitpack import pack_bits, packed_bytes, unpack_bits
from tq_core.math.block_maps import SplitBlocks
from tq_core.math.maps import LinearMap
from tq_core.math.prng import check_seed, splitmix64
from tq_core.math.scalar import nearest, scalar_book, unit_rows
from tq_core.math.sketch import mean_abs_coordinate, sign_bits, sign_values

MODES = {"tq35": (2, (3, 2)), "tq25": (4, (2, 1))}  # first group is 1/n of the channels; bits in the books
VERSIONS = ("published", "repaired")


@lru_cache(maxsize=64)
def _maps(groups: tuple[int, int], seed: int, own_size: bool) -> tuple[SplitBlocks, SplitBlocks]:
    return tuple(SplitBlocks(groups, int(s), own_size) for s in splitmix64(seed, 2))  # type: ignore[return-value]


@dataclass(frozen=True)
class _Aither(MappedCodec):
    """Raises CodecError for an unknown mode or version, ValueRangeError for a seed outside 0..2^64-1."""

    mode: str = "tq35"
    version: str = "repaired"
    seed: int = 1

    name = "aither-hybrid"

    def __post_init__(self) -> None:
        modes = tuple(MODES)
        check(self.mode in modes, "mode", f"one of {modes}", repr(self.mode), CodecError)
        check(self.version in VERSIONS, "version", f"one of {VERSIONS}", repr(self.version), CodecError)
        check_seed(self.seed)

    @property
    def tags(self) -> CodecTags:
        """The published version shortens what it stores."""
        return (
            NUMPY_ONLY if self.version == "repaired" else replace(NUMPY_ONLY, known_failures=("check_gain",))
        )

    def _groups(self, head_dim: int) -> tuple[int, int]:
        first = head_dim // MODES[self.mode][0]
        return first, head_dim - first

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        parts = zip(self._groups(head_dim), MODES[self.mode][1], strict=True)
        return {"norms": (8, 1), "codes": (sum(packed_bytes(g, bits + 1) for g, bits in parts), 1)}

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return _maps(self._groups(head_dim), self.seed, self.version == "repaired")

    def _constant(self, group: int) -> float:
        """Factor of norm * residual norm * signs under the orthonormal map."""
        if self.version == "published":
            return float(np.sqrt(np.pi / 2) / group)
        return 1.0 / (group * mean_abs_coordinate(group))

    def encode(self, x: F32) -> Rows:
        d = x.shape[-1]
        groups, (rotate, project) = self._groups(d), self.maps(d)
        parts = [unit_rows(part) for part in np.split(x, [groups[0]], axis=-1)]
        unit, rho = np.concatenate([u for u, _ in parts], axis=-1), [r for _, r in parts]
        codes, centroids = [], []
        for y, g, bits in zip(
            np.split(rotate.forward(unit), [groups[0]], axis=-1), groups, MODES[self.mode][1], strict=True
        ):
            book, boundaries = scalar_book("sphere", bits, g)
            codes.append(nearest(np.float32(np.sqrt(g)) * y, boundaries))
            centroids.append(book[codes[-1]] / np.float32(np.sqrt(g)))
        residual = unit - rotate.transpose(np.concatenate(centroids, axis=-1))
        signs = np.split(sign_bits(project.forward(residual)), [groups[0]], axis=-1)
        wide = np.split(residual.astype(np.float64) ** 2, [groups[0]], axis=-1)
        norms = np.concatenate([*rho, *(np.sqrt(w.sum(axis=-1, keepdims=True)) for w in wide)], axis=-1)
        packed = [
            pack_bits((c | (s << bits)).astype(np.uint8), bits + 1)
            for c, s, bits in zip(codes, signs, MODES[self.mode][1], strict=True)
        ]
        return {"norms": half_bytes(norms, "the norm of a group"), "codes": np.concatenate(packed, axis=-1)}

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        norms, start = halves(rows["norms"]), 0
        main, sketched = [], []
        for i, (g, bits) in enumerate(zip(self._groups(head_dim), MODES[self.mode][1], strict=True)):
            size = packed_bytes(g, bits + 1)
            signed = unpack_bits(rows["codes"][..., start : start + size], bits + 1, g)
            start += size
            rho, gamma = norms[..., i : i + 1], norms[..., 2 + i : 3 + i]
            book = scalar_book("sphere", bits, g)[0] / np.float32(np.sqrt(g))
            main.append(rho * book[signed & ((1 << bits) - 1)])
            sketched.append(
                np.float32(self._constant(g)) * rho * gamma * sign_values(signed >> np.uint8(bits))
            )
        return np.concatenate(main, axis=-1), np.concatenate(sketched, axis=-1)


@dataclass(frozen=True)
class AitherKeys(MappedKeys, _Aither):
    """Keys; scores are unbiased once repaired."""

    @property
    def tags(self) -> CodecTags:
        """Unbiased where repaired."""
        return replace(super().tags, unbiased_scores=self.version == "repaired")


@dataclass(frozen=True)
class AitherValues(MappedValues, _Aither):
    """Values."""

    seed: int = 2
