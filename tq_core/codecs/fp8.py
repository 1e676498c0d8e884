"""FP8: e4m3 and e5m2 floats with vLLM's rules for the scale (8 bits per channel, scales per layer or head).

stored = round to nearest even of clip(x / scale), read back as stored * scale. e4m3 is e4m3fn: no infinities, largest
448, so a value beyond it saturates here where a plain cast gives NaN. Rules of the scale, vLLM's quantized_kvcache:
1.0 without calibration; max|x| / 200 for keys and / 100 for values of a warm-up batch; max|x| / largest, per layer or
per KV head, as llm-compressor fits it. A float has an exponent of its own, so the scale only matters where values
leave its range.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tq_core.codecs.base import F32, CodecTags, Pages
from tq_core.codecs.calibration import Calibration, check_calibration, check_fit
from tq_core.codecs.rows import KeySide, Parts, Rows, ValueSide
from tq_core.errors import CodecError, check
from tq_core.kernels.forms import ByteForm, float_form
from tq_core.kernels.layout import PageLayout

FORMATS = {"e4m3": (ml_dtypes.float8_e4m3fn, 448.0), "e5m2": (ml_dtypes.float8_e5m2, 57344.0)}
BITS = {"e4m3": (3, 7), "e5m2": (2, 15)}  # of the mantissa, and the bias of the exponent
RULES = ("warmup", "layer", "head")
WARMUP_DIVISOR = {"key": 200.0, "value": 100.0}
METHOD = "fp8"


@dataclass(frozen=True)
class _Fp8(Rows):
    """``format``: "e4m3" or "e5m2". Raises CodecError for another one, or another method's calibration."""

    format: str = "e4m3"
    calibration: Calibration | None = None

    name = "fp8"
    tags = CodecTags(scale_free=False)

    def __post_init__(self) -> None:
        check(self.format in FORMATS, "format", f"one of {tuple(FORMATS)}", repr(self.format), CodecError)
        check_calibration(self.calibration, METHOD, required=False)

    def group_bytes(self, head_dim: int) -> dict[str, int]:
        return {"codes": head_dim}

    def _scale(self, pages: Pages) -> F32:
        """(n_kv_heads or 1, 1)"""
        return (
            np.ones((1, 1), np.float32)
            if self.calibration is None
            else self.calibration.table("scale", pages)
        )

    def byte_form(self, layout: PageLayout, head_dim: int) -> ByteForm:
        return float_form(*BITS[self.format], layout.offsets[f"{self._side}_codes"], head_dim)

    def gain(self, pages: Pages) -> F32:
        return self._scale(pages)

    def encode(self, x: F32, pages: Pages, position: int | None) -> Parts:
        kind, largest = FORMATS[self.format]
        ratio = np.clip(x / self._scale(pages), -largest, largest)
        return {"codes": ratio.astype(kind).view(np.uint8)}

    def expand(self, parts: Parts, head_dim: int, pages: Pages) -> F32:
        kind, _ = FORMATS[self.format]
        return np.ascontiguousarray(parts["codes"]).view(kind).astype(np.float32) * self._scale(pages)


@dataclass(frozen=True)
class Fp8Keys(KeySide, _Fp8):
    """Keys as FP8."""


@dataclass(frozen=True)
class Fp8Values(ValueSide, _Fp8):
    """Values as FP8."""


def fit_fp8(vectors: F32, side: str, rule: str = "warmup", format: str = "e4m3") -> Calibration:
    """Scales from keys or values (n_layers, n_tokens, n_kv_heads, head_dim).

    ``side``: "key" or "value", which vLLM's warm-up divides by 200 and 100. Vectors that are all zero give scale 1.
    Raises CodecError for an unknown side, rule or format, and the errors of ``check_fit``.
    """
    for label, value, known in (("side", side, tuple(WARMUP_DIVISOR)), ("rule", rule, RULES), ("format", format, tuple(FORMATS))):  # fmt: skip
        check(value in known, label, f"one of {known}", repr(value), CodecError)
    x = check_fit(vectors, 1)
    largest = np.abs(x).max(axis=(1, 3) if rule == "head" else (1, 2, 3)).reshape(len(x), -1, 1)
    scale = largest / np.float32(WARMUP_DIVISOR[side] if rule == "warmup" else FORMATS[format][1])
    tiny = np.finfo(np.float32).tiny
    return Calibration(METHOD, x.shape[3], {"scale": np.where(scale >= tiny, scale, np.float32(1))})
