"""QServe's KV4 and KV8 with SmoothAttention (2405.04532, sections 4.2 and 5.2).

Per token and KV head: s = (max - min) / (2^b - 1), z = -min / s, both float16 and z not rounded to an integer;
code = round(x / s + z), x = (code - z) * s. "symmetric": s = max|x| / (2^(b-1) - 1), no z. b + 32 / head_dim bits per
channel (16 / head_dim symmetric).

SmoothAttention divides key channel i by lambda_i = (largest |k_i| in calibration)^alpha and multiplies the query by
it. To be folded into projections it must commute with RoPE, so both members of a rotated pair take the larger value.
Where the range is so small beside the minimum that z leaves float16, or zero, the published division fails; such a
row is stored as a constant: s = |min|, z = -sign(min), code 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags, Pages
from tq_core.codecs.byte_reader import Order, even_first
from tq_core.codecs.calibration import Calibration, check_calibration, check_fit
from tq_core.codecs.rows import HALF_MAX, KeySide, Parts, Rows, ValueSide, half_bytes, halves
from tq_core.errors import CodecError, check
from tq_core.kernels.forms import BLOCK, ByteForm, Kind, Scaling
from tq_core.kernels.layout import PageLayout
from tq_core.math.bitpack import pack_bits, unpack_bits
from tq_core.math.rotary import Rotary

QSERVE_BITS = (4, 8)
METHOD = "smooth-attention"
FIT_TOKENS = 32
Z_MAX = 60000.0  # below float16's largest by more than a rounding


@dataclass(frozen=True)
class _QServe(Rows):
    """``bits``: 4 or 8. Raises CodecError for others."""

    bits: int = 4
    symmetric: bool = False

    name = "qserve"
    tags = CodecTags()

    def __post_init__(self) -> None:
        check(self.bits in QSERVE_BITS, "bits", f"one of {QSERVE_BITS}", repr(self.bits), CodecError)
        check(
            isinstance(self.symmetric, bool), "symmetric", "True or False", repr(self.symmetric), CodecError
        )

    def group_bytes(self, head_dim: int) -> dict[str, int]:
        zeros = {} if self.symmetric else {"zeros": 2}
        return {"scales": 2, **zeros, "codes": head_dim * self.bits // 8}

    def byte_form(self, layout: PageLayout, head_dim: int) -> ByteForm:
        nibbles, at = self.bits == 4, (lambda part: layout.offsets[f"{self._side}_{part}"])
        whole = -(-head_dim // BLOCK) * BLOCK
        scaling, centre = (Scaling.step, 1 << (self.bits - 1)) if self.symmetric else (Scaling.zero, 0)
        codes = (Kind.nibbles if nibbles else Kind.bytes, scaling, head_dim, whole, 0, centre)
        zeros = () if self.symmetric else (at("zeros"), 2, 0)
        return ByteForm(*codes, at("codes"), head_dim * self.bits // 8, 0, at("scales"), 2, 0, *zeros)

    def block_order(self, head_dim: int) -> Order | None:
        return even_first(head_dim) if self.bits == 4 else None

    def encode(self, x: F32, pages: Pages, position: int | None) -> Parts:
        top = np.float32((1 << self.bits) - 1)
        if self.symmetric:
            most = (1 << (self.bits - 1)) - 1
            raw = half_bytes(np.abs(x).max(axis=2, keepdims=True) / np.float32(most))
            scale = halves(raw)
            units = np.where(scale > 0, x / np.where(scale > 0, scale, np.float32(1)), 0)
            codes = np.clip(np.rint(units), -most, most) + (most + 1)
            return {"scales": raw, "codes": pack_bits(codes.astype(np.uint8), self.bits)}
        low, high = x.min(axis=2, keepdims=True), x.max(axis=2, keepdims=True)
        span = high - low
        step = halves(half_bytes(span / top))
        plain = (step > 0) & (np.abs(low) * top < Z_MAX * span)
        zero = np.where(plain, -low * top / np.where(plain, span, np.float32(1)), -np.sign(low))
        scale, zero = halves(half_bytes(np.where(plain, step, np.abs(low)))), halves(half_bytes(zero))
        units = np.clip(np.rint(x / np.where(plain, scale, np.float32(1)) + zero), 0, top)
        codes = np.where(plain, units, 0).astype(np.uint8)
        return {"scales": half_bytes(scale), "zeros": half_bytes(zero), "codes": pack_bits(codes, self.bits)}

    def expand(self, parts: Parts, head_dim: int, pages: Pages) -> F32:
        codes = unpack_bits(parts["codes"], self.bits, head_dim).astype(np.float32)
        zero = np.float32(1 << (self.bits - 1)) if self.symmetric else halves(parts["zeros"])
        x: F32 = (codes - zero) * halves(parts["scales"])
        return x


@dataclass(frozen=True)
class QServeKeys(KeySide, _QServe):
    """Keys by QServe, smoothed where there is a calibration."""

    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_calibration(self.calibration, METHOD, required=False)

    def to_codes(self, x: F32, pages: Pages) -> F32:
        if self.calibration is None:
            return x
        return np.clip(x / self.calibration.table("lambda", pages), -HALF_MAX, HALF_MAX)

    def from_codes(self, y: F32, pages: Pages) -> F32:
        return y if self.calibration is None else y * self.calibration.table("lambda", pages)

    def query(self, q: F32, pages: Pages) -> F32:
        return q if self.calibration is None else q * self.calibration.table("lambda", pages)


@dataclass(frozen=True)
class QServeValues(ValueSide, _QServe):
    """Values by QServe."""


def fit_smoothing(keys: F32, alpha: float = 0.5, pairing: str = "adjacent") -> Calibration:
    """lambda (n_layers, n_kv_heads, head_dim) from keys (n_layers, n_tokens, n_kv_heads, head_dim), 32 tokens or more.

    ``pairing``: the layout of RoPE's pairs, which share one lambda. A channel that is zero throughout is left alone.
    Raises CodecError for alpha outside 0..1, ValueRangeError for an unknown pairing, and the errors of check_fit.
    """
    check(0 <= alpha <= 1, "alpha", "0..1", alpha, CodecError)
    first, second = Rotary(pairing=pairing).pairs(check_fit(keys, FIT_TOKENS).shape[3])
    largest = np.abs(keys).max(axis=1)
    larger = np.maximum(largest[..., first], largest[..., second])
    largest[..., first] = largest[..., second] = larger
    smooth = np.where(largest > 0, largest, np.float32(1)) ** np.float32(alpha)
    return Calibration(METHOD, keys.shape[3], {"lambda": smooth})
