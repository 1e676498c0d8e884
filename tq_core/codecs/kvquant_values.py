"""KVQuant's values (2401.18079, section 3.4): per token, non-uniform points, its own outliers set aside.

A token's outliers are its 1 % of channels, at least one, farthest from its median; the range is that of the others.
They are kept as float16 with a 16-bit index. The paper's range spans the channels of all heads; here every KV head has
its own, as pages are laid out by head: b + (32 + 32 * ceil(0.01 head_dim)) / head_dim bits per channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags, Pages
from tq_core.codecs.calibration import Calibration, check_calibration
from tq_core.codecs.kvquant import OUTLIERS, check_bits, points_of
from tq_core.codecs.rows import Parts, ValueSide, half_bytes, halves
from tq_core.math.bitpack import pack_bits, unpack_bits
from tq_core.math.nuq import nearest

VALUE_METHOD = "kvquant-values"


def outliers_per_token(head_dim: int) -> int:
    """Channels that a token keeps exactly."""
    return max(int(np.ceil(OUTLIERS * head_dim)), 1)


def split_outliers(x: F32) -> tuple[np.ndarray, F32, F32]:
    """Of x (..., head_dim): outlier channels ascending (..., count), and (..., 1) minimum and maximum of the others."""
    distance = np.abs(x - np.median(x, axis=-1, keepdims=True))
    count = outliers_per_token(x.shape[-1])
    channels = np.sort(np.argsort(-distance, axis=-1, kind="stable")[..., :count], axis=-1)
    others = x.copy()
    np.put_along_axis(others, channels, np.nan, axis=-1)
    return channels, np.nanmin(others, axis=-1, keepdims=True), np.nanmax(others, axis=-1, keepdims=True)


@dataclass(frozen=True)
class KVQuantValues(ValueSide):
    """Values by KVQuant. Raises CodecError for other bits, a missing calibration or another method's."""

    calibration: Calibration
    bits: int = 3

    name = "kvquant"
    tags = CodecTags(needs_calibration=True, same_bits=False)

    def __post_init__(self) -> None:
        check_bits(self.bits)
        check_calibration(self.calibration, VALUE_METHOD, required=True)

    def group_bytes(self, head_dim: int) -> dict[str, int]:
        n = 2 * outliers_per_token(head_dim)
        return {"middles": 2, "widths": 2, "outliers": n, "indices": n, "codes": head_dim * self.bits // 8}

    def encode(self, x: F32, pages: Pages, position: int | None) -> Parts:
        points, _ = points_of(self.calibration, self.bits, pages)
        channels, low, high = split_outliers(x)
        middle, width = half_bytes((low + high) / 2), half_bytes((high - low) / 2)
        divisor = halves(width)
        ratio = np.where(divisor > 0, (x - halves(middle)) / np.where(divisor > 0, divisor, np.float32(1)), 0)
        return {
            "middles": middle,
            "widths": width,
            "outliers": half_bytes(np.take_along_axis(x, channels, axis=-1)),
            "indices": np.ascontiguousarray(channels.astype(np.uint16)).view(np.uint8),
            "codes": pack_bits(nearest(ratio, points), self.bits),
        }

    def expand(self, parts: Parts, head_dim: int, pages: Pages) -> F32:
        _, outputs = points_of(self.calibration, self.bits, pages)
        dense = outputs[unpack_bits(parts["codes"], self.bits, head_dim)] * halves(parts["widths"]) + halves(
            parts["middles"]
        )
        channels = np.ascontiguousarray(parts["indices"]).view(np.uint16).astype(np.int64)
        np.put_along_axis(dense, channels, halves(parts["outliers"]), axis=-1)
        out: F32 = dense
        return out
