"""QuaRot's KV4 (2404.00456, section 4): a Hadamard transform, then asymmetric integers per token and KV head.

Keys and queries are transformed after RoPE, values before they are stored and once back after the sum. There are no
random signs at the head level. step = (max - min) / (2^b - 1); the zero point is one of the two published ones:
"float", the kernel's, stores the minimum and decodes to code * step + min; "integer", the fake-quantization script's,
makes minimum <= 0 <= maximum, stores round(-min / step) and decodes to (code - zero) * step. They differ by up to half
a step. ``clip`` multiplies both ends of the range. b + 32 / head_dim bits per channel; the published rate is 4.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, Pages
from tq_core.codecs.rows import KeySide, Parts, Rows, ValueSide, half_bytes, halves
from tq_core.errors import CodecError, check
from tq_core.math.affine import channel_groups, joined
from tq_core.math.bitpack import pack_bits, unpack_bits
from tq_core.math.hadamard import paley, paley_order, transform

ROTATED_BITS = (3, 4, 8)
ZEROS = ("float", "integer")


def hadamard(x: F32, inverse: bool = False) -> F32:
    """H x / sqrt(d) along the last axis, H unsigned and orthogonal for every head_dim."""
    d = x.shape[-1]
    return np.float32(1 / np.sqrt(d)) * transform(x, paley(paley_order(d)), inverse)


@dataclass(frozen=True)
class AffineRows(Rows):
    """Asymmetric integers of b bits per token, KV head and group of channels. Raises CodecError for other fields."""

    bits: int = 4
    zero: str = "float"
    clip: float = 1.0

    def __post_init__(self) -> None:
        whole = isinstance(self.bits, int) and self.bits in ROTATED_BITS
        check(whole, "bits", f"one of {ROTATED_BITS}", repr(self.bits), CodecError)
        check(self.zero in ZEROS, "zero", f"one of {ZEROS}", repr(self.zero), CodecError)
        number = isinstance(self.clip, numbers.Real) and not isinstance(self.clip, bool)
        least = 0.99 if self.bits == 8 else 0.5  # with 256 steps clipping costs more than it saves
        check(
            number and least <= self.clip <= 1, "clip", f"a factor in {least}..1", repr(self.clip), CodecError
        )

    def _group(self, head_dim: int) -> int:
        """Channels that share a step."""
        return head_dim

    def group_bytes(self, head_dim: int) -> dict[str, int]:
        groups = -(-head_dim // self._group(head_dim))
        return {"steps": 2 * groups, "zeros": 2 * groups, "codes": head_dim * self.bits // 8}

    def encode(self, x: F32, pages: Pages, position: int | None) -> Parts:
        groups, top = channel_groups(x, self._group(x.shape[-1])), np.float32((1 << self.bits) - 1)
        low, high = (np.float32(self.clip) * end(groups, axis=-1) for end in (np.min, np.max))
        if self.zero == "integer":
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        step = halves(half_bytes((high - low) / top))
        divisor = np.where(step > 0, step, np.float32(1))
        if self.zero == "integer":
            zero = np.clip(np.rint(-low / divisor), 0, top)
            units = groups / divisor[..., None] + zero[..., None]
        else:
            zero = halves(half_bytes(low))
            units = (groups - zero[..., None]) / divisor[..., None]
        codes = np.where(step[..., None] > 0, np.clip(np.rint(units), 0, top), 0).astype(np.uint8)
        packed = pack_bits(np.ascontiguousarray(joined(codes, x.shape[-1])), self.bits)
        return {"steps": half_bytes(step), "zeros": half_bytes(zero), "codes": packed}

    def expand(self, parts: Parts, head_dim: int, pages: Pages) -> F32:
        codes = channel_groups(
            unpack_bits(parts["codes"], self.bits, head_dim).astype(np.float32), self._group(head_dim)
        )
        step, zero = halves(parts["steps"])[..., None], halves(parts["zeros"])[..., None]
        x: F32 = joined((codes - zero) * step if self.zero == "integer" else codes * step + zero, head_dim)
        return x


@dataclass(frozen=True)
class _QuaRot(AffineRows):
    name = "quarot"

    def to_codes(self, x: F32, pages: Pages) -> F32:
        return hadamard(x)

    def from_codes(self, y: F32, pages: Pages) -> F32:
        return hadamard(y, inverse=True)


@dataclass(frozen=True)
class QuaRotKeys(KeySide, _QuaRot):
    """Keys by QuaRot."""


@dataclass(frozen=True)
class QuaRotValues(ValueSide, _QuaRot):
    """Values by QuaRot."""
