"""Control: symmetric 8-bit integers with one float16 scale per token and KV head.

code = round(x / scale), scale = max|x| / 127; 8 + 16 / head_dim bits per channel. Codes are taken against the stored
scale, so that reconstruction uses what encoding used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tq_core.codecs.base import F32, CodecTags, Pages
from tq_core.codecs.rows import KeySide, Parts, Rows, ValueSide, half_bytes, halves
from tq_core.kernels.forms import ByteForm, Kind, Scaling
from tq_core.kernels.layout import PageLayout

LARGEST = 127


@dataclass(frozen=True)
class _Int8(Rows):
    name = "int8"
    tags = CodecTags()

    def group_bytes(self, head_dim: int) -> dict[str, int]:
        return {"scales": 2, "codes": head_dim}

    def byte_form(self, layout: PageLayout, head_dim: int) -> ByteForm:
        at = layout.offsets
        scales = (at[f"{self._side}_scales"], 2, 0)
        codes = (at[f"{self._side}_codes"], head_dim, 0)
        return ByteForm(Kind.bytes, Scaling.step, head_dim, head_dim, 128, 128, *codes, *scales)

    def encode(self, x: F32, pages: Pages, position: int | None) -> Parts:
        raw = half_bytes(np.abs(x).max(axis=2, keepdims=True) / np.float32(LARGEST))
        scale = halves(raw)
        codes = np.rint(x / np.where(scale > 0, scale, np.float32(1)))
        codes = np.where(scale > 0, np.clip(codes, -LARGEST, LARGEST), 0).astype(np.int8)
        return {"scales": raw, "codes": codes.view(np.uint8)}

    def expand(self, parts: Parts, head_dim: int, pages: Pages) -> F32:
        return np.ascontiguousarray(parts["codes"]).view(np.int8) * halves(parts["scales"])


@dataclass(frozen=True)
class Int8Keys(KeySide, _Int8):
    """Keys as int8."""


@dataclass(frozen=True)
class Int8Values(ValueSide, _Int8):
    """Values as int8."""
