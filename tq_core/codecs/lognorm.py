"""Scales of one byte: a logarithm in steps of 1/32 octave below an exponent that 32 tokens share.

A byte over sixteen octaves errs by 1.26 % (rms), which multiplies whole logits: a quarter nat on a logit of 20. With an
exponent per group of 32 tokens the byte spans eight octaves and errs by 0.63 %; float16 errs by 0.02 %. Bits per channel
b + 8 / d + 8 / (32 d) instead of b + 16 / d. A vector more than eight octaves below the longest of its group becomes zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags
from tq_core.codecs.mapped import MappedCodec, MappedKeys, MappedValues, Rows
from tq_core.codecs.turboquant_mse import ScalarRows
from tq_core.errors import ValueRangeError, check
from tq_core.math.bitpack import pack_bits, packed_bytes, unpack_bits
from tq_core.math.maps import LinearMap
from tq_core.math.scalar import fitted_scale, nearest, scalar_book, unit_rows

GROUP = 32  # tokens that share an exponent
STEPS = 32  # codes per octave
TOP = 255
LARGEST = 2.0**120


@dataclass(frozen=True)
class LogNormRows(MappedCodec):
    """Raises what ScalarRows raises."""

    bits: int = 3
    seed: int = 1
    rotation: str = "structured"
    norm: str = "matched"

    name = "lognorm"
    tags = CodecTags(same_bits=False)
    flush_tokens = GROUP

    def __post_init__(self) -> None:
        self._codes.maps  # noqa: B018  (its fields are checked when it is made)

    @property
    def _codes(self) -> ScalarRows:
        return ScalarRows(self.bits, self.seed, self.rotation, "gauss", self.norm)

    def row_streams(self, head_dim: int) -> dict[str, tuple[int, int]]:
        return {"exponents": (1, GROUP), "norms": (1, 1), "codes": (packed_bytes(head_dim, self.bits), 1)}

    def maps(self, head_dim: int) -> tuple[LinearMap, ...]:
        return self._codes.maps(head_dim)

    def encode(self, x: F32) -> Rows:
        d = x.shape[-1]
        centroids, boundaries = scalar_book("gauss", self.bits, d)
        unit, rho = unit_rows(x)
        t = np.float32(np.sqrt(d)) * self.maps(d)[0].forward(unit)
        codes = nearest(t, boundaries)
        exponents, norms = encode_scales((rho * fitted_scale(self.norm, t, centroids[codes]))[..., 0])
        return {"exponents": exponents, "norms": norms[..., None], "codes": pack_bits(codes, self.bits)}

    def coordinates(self, rows: Rows, head_dim: int) -> tuple[F32, ...]:
        centroids, _ = scalar_book("gauss", self.bits, head_dim)
        scales = decode_scales(rows["exponents"], rows["norms"][..., 0])
        return (scales[..., None] * centroids[unpack_bits(rows["codes"], self.bits, head_dim)],)


def encode_scales(scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scales (heads, n), n a multiple of 32, to exponents (heads, n / 32, 1) and codes (heads, n), both uint8.

    The exponent is that of the power of two above the group's largest scale. Raises ValueRangeError beyond 2^120.
    """
    top = float(scales.max(initial=0))
    check(
        top < LARGEST, "x", f"scales within the range of the exponents, {LARGEST:.3g}", top, ValueRangeError
    )
    groups = scales.reshape(len(scales), -1, GROUP)
    largest = groups.max(axis=-1, keepdims=True)
    _, exponent = np.frexp(largest)  # largest < 2^exponent
    exponent = np.clip(exponent, -127, 127)
    with np.errstate(divide="ignore"):
        code = np.rint(TOP - STEPS * (exponent - np.log2(groups)))
    code = np.clip(np.where(groups > 0, code, 0), 0, TOP).astype(np.uint8)
    return exponent.astype(np.int8).view(np.uint8), code.reshape(scales.shape)


def decode_scales(exponents: np.ndarray, codes: np.ndarray) -> F32:
    """(heads, n) float32 from exponents (heads, n_groups, 1) and codes (heads, n); code 0 is zero."""
    shared = np.repeat(exponents[..., 0].view(np.int8).astype(np.float64), GROUP, axis=-1)[
        :, : codes.shape[1]
    ]
    scales = np.exp2(shared - (TOP - codes.astype(np.float64)) / STEPS)
    out: F32 = np.where(codes > 0, scales, 0.0).astype(np.float32)
    return out


@dataclass(frozen=True)
class LogNormKeys(MappedKeys, LogNormRows):
    """Keys."""


@dataclass(frozen=True)
class LogNormValues(MappedValues, LogNormRows):
    """Values."""

    seed: int = 2
    norm: str = "min_mse"
