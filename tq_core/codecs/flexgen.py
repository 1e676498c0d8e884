"""FlexGen's group-wise 4 bits (2303.06865, section 5): keys and values alike, groups along the channels.

scale = 15 / (max - min) and min are stored as float16; code = round((x - min) * scale), x = code / scale + min; the
even channel is in the high nibble. 4 + 32 / group bits per channel: 4.5 at the published group of 64.

Two defects of the published code are defined away. A constant group, or one whose range is so small that the scale
leaves float16, divides by zero there; here its scale is stored as 0 and it decodes to its minimum. A short last group
is padded with zeros there, which move its minimum; here it repeats its last channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags, Pages
from tq_core.codecs.byte_reader import Order, odd_first
from tq_core.codecs.rows import HALF_MAX, U8, KeySide, Parts, Rows, ValueSide, half_bytes, halves
from tq_core.errors import CodecError, check
from tq_core.kernels.forms import ByteForm, Kind, Scaling
from tq_core.kernels.layout import PageLayout
from tq_core.math.affine import channel_groups, joined
from tq_core.math.bitpack import pack_bits, unpack_bits

GROUPS = (32, 64, 128)
BITS = 4


def swap_pairs(codes: U8) -> U8:
    """(..., count) with the elements 2 i and 2 i + 1 exchanged."""
    return codes.reshape(*codes.shape[:-1], -1, 2)[..., ::-1].reshape(codes.shape)


@dataclass(frozen=True)
class _FlexGen(Rows):
    """``group``: channels that share a scale. Raises CodecError unless it is one of GROUPS."""

    group: int = 64

    name = "flexgen"
    tags = CodecTags()

    def __post_init__(self) -> None:
        check(self.group in GROUPS, "group", f"one of {GROUPS}", repr(self.group), CodecError)

    def group_bytes(self, head_dim: int) -> dict[str, int]:
        groups = -(-head_dim // self.group)
        return {"scales": 2 * groups, "minima": 2 * groups, "codes": head_dim * BITS // 8}

    def byte_form(self, layout: PageLayout, head_dim: int) -> ByteForm:
        at, row = (lambda part: layout.offsets[f"{self._side}_{part}"]), 2 * -(-head_dim // self.group)
        codes = (at("codes"), head_dim * BITS // 8, self.group * BITS // 8)
        affine = (at("scales"), row, 2, at("minima"), row, 2)
        return ByteForm(Kind.nibbles, Scaling.inverse, head_dim, self.group, 0, 0, *codes, *affine)

    def block_order(self, head_dim: int) -> Order:
        return odd_first(head_dim)

    def encode(self, x: F32, pages: Pages, position: int | None) -> Parts:
        groups, top = channel_groups(x, self.group), np.float32((1 << BITS) - 1)
        low = halves(half_bytes(groups.min(axis=-1)))
        span = groups.max(axis=-1) - groups.min(axis=-1)
        usable = span * np.float32(HALF_MAX) > top
        scale = halves(
            half_bytes(np.where(usable, top / np.where(usable, span, np.float32(1)), np.float32(0)))
        )
        codes = np.clip(np.rint((groups - low[..., None]) * scale[..., None]), 0, top).astype(np.uint8)
        packed = pack_bits(swap_pairs(np.ascontiguousarray(joined(codes, x.shape[-1]))), BITS)
        return {"scales": half_bytes(scale), "minima": half_bytes(low), "codes": packed}

    def expand(self, parts: Parts, head_dim: int, pages: Pages) -> F32:
        scale, low = halves(parts["scales"])[..., None], halves(parts["minima"])[..., None]
        codes = channel_groups(
            swap_pairs(unpack_bits(parts["codes"], BITS, head_dim)).astype(np.float32), self.group
        )
        x: F32 = joined(codes / np.where(scale > 0, scale, np.float32(1)) + low, head_dim)
        return x


@dataclass(frozen=True)
class FlexGenKeys(KeySide, _FlexGen):
    """Keys in FlexGen's groups."""


@dataclass(frozen=True)
class FlexGenValues(ValueSide, _FlexGen):
    """Values in FlexGen's groups."""
