"""PolarQuant: rotate, then blocks of 16 coordinates as a radius and 15 angles (2502.02617, section 4).

The angles of level 1 take 4 bits, those of levels 2 to 4 two bits each, and the block's radius is a float16:
46 + 16 bits per 16 channels, 3.875 bits per channel, with no norm beside. Two bits at level 2 are the second largest
error; see math/polar.py for the books. Not to be confused with 2502.00527 of the same name, which has no rotation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32
from tq_core.codecs.mapped import U8, MappedCodec, MappedKeys, MappedValues, Rows, half_bytes, halves
from tq_core.errors import CodecError, check
from tq_core.math.bitpack import pack_bits, packed_bytes, unpack_bits
from tq_core.math.maps import ROTATIONS, LinearMap, rotation
from tq_core.math.polar import BLOCK, LEVEL_BITS, LEVEL_CODES, from_polar, to_polar
from tq_core.math.prng import check_seed


def _counts(head_dim: int) -> tuple[int, int]:
    """Codes of 4 bits and codes of 2 bits in a vector."""
    blocks = head_dim // BLOCK
    return blocks * LEVEL_CODES[0], blocks * sum(LEVEL_CODES[1:])


@dataclass(frozen=True)
class _Polar(MappedCodec):
    """Raises CodecError for an unknown rotation, ValueRangeError for a seed outside 0..2^64-1.

    The 2-bit codes of a vector end at a byte: where head_dim is no multiple of 64 up to 6 bits are padding, counted.
    """

    seed: int = 1
    rotation: str = "haar"

    name = "polarquant"

    def __post_init__(self) -> None:
        check(self.rotation in ROTATIONS, "rotation", f"one of {ROTATIONS}", repr(self.rotation), CodecError)
        check_seed(self.seed)

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        wide, narrow = _counts(head_dim)
        codes = packed_bytes(wide, LEVEL_BITS[0]) + packed_bytes(narrow, LEVEL_BITS[1])
        return {"radii": (2 * head_dim // BLOCK, 1), "codes": (codes, 1)}

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return (rotation(self.rotation, head_dim, self.seed),)

    def encode(self, x: F32) -> Rows:
        y = self.maps(x.shape[-1])[0].forward(x)
        codes, radii = to_polar(y.reshape(*x.shape[:-1], -1, BLOCK))
        flat = [c.reshape(*x.shape[:-1], -1) for c in codes]
        packed = [
            pack_bits(flat[0], LEVEL_BITS[0]),
            pack_bits(np.concatenate(flat[1:], axis=-1), LEVEL_BITS[1]),
        ]
        return {
            "radii": half_bytes(radii[..., 0], "the radius of a block"),
            "codes": np.concatenate(packed, axis=-1),
        }

    def _unpack(self, packed: U8, head_dim: int) -> list[U8]:
        wide, narrow = _counts(head_dim)
        cut = packed_bytes(wide, LEVEL_BITS[0])
        first = unpack_bits(packed[..., :cut], LEVEL_BITS[0], wide)
        rest = unpack_bits(packed[..., cut:], LEVEL_BITS[1], narrow)
        blocks = head_dim // BLOCK
        ends = np.cumsum([blocks * n for n in LEVEL_CODES[1:]])[:-1]
        levels = [first, *np.split(rest, ends, axis=-1)]
        return [codes.reshape(*packed.shape[:-1], blocks, -1) for codes in levels]

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        y = from_polar(
            self._unpack(rows["codes"], head_dim), halves(rows["radii"])[..., None].astype(np.float64)
        )
        return (y.reshape(*y.shape[:-2], head_dim).astype(np.float32),)


@dataclass(frozen=True)
class PolarKeys(MappedKeys, _Polar):
    """Keys of PolarQuant."""


@dataclass(frozen=True)
class PolarValues(MappedValues, _Polar):
    """Values of PolarQuant."""

    seed: int = 2
